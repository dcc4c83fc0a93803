/*-------------------------------------------------------------------------
 *
 * cdc_gap.c
 *		Values that an event does not carry.
 *
 * An event says so by a list of columns, by a placeholder in the value's
 * place, or, where the rule says that NULL means "no change", by NULL; and by a
 * second list that the source does not have such columns.  What
 * stands in for a missing value is found in cdc_image.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/base64.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "cdc_apply.h"

/* Bytes around the placeholder in a jsonb string or an array of one, at most. */
#define CDC_GAP_AROUND	64

/* From here on a value may be compressed: the least that the server tries. */
#define CDC_GAP_COMPRESSIBLE	32

/* Spellings of the placeholder in one column, at most: see add_text_markers. */
#define CDC_GAP_MARKERS	4

/* ---------- the placeholder ---------- */

static void
add_marker(CdcColumn *col, char *bytes)
{
	col->markers[col->nmarkers].bytes = bytes;
	col->markers[col->nmarkers++].len = strlen(bytes);
}

/* The placeholder as a decoder writes it for a column of the target's type. */
static void
add_text_markers(CdcColumn *col, Oid target_type, const char *value)
{
	int			len = strlen(value);

	add_marker(col, pstrdup(value));
	if (OidIsValid(get_element_type(target_type)))
	{
		add_marker(col, psprintf("{%s}", value));
		add_marker(col, psprintf("{\"%s\"}", value));
		add_marker(col, psprintf("[\"%s\"]", value));
	}
	else if (target_type == BYTEAOID)
	{
		char	   *b64 = palloc0(pg_b64_enc_len(len) + 1);
		char	   *hex = palloc0(len * 2 + 3);

		if (cdc_b64_encode(value, len, b64, pg_b64_enc_len(len)) < 0)
			elog(ERROR, "could not encode the placeholder");
		add_marker(col, b64);
		strcpy(hex, "\\x");
		hex_encode(value, len, hex + 2);
		add_marker(col, hex);
	}
	else if (target_type == JSONOID || target_type == JSONBOID)
		add_marker(col, psprintf("\"%s\"", value));
}

bool
cdc_type_is_text_like(Oid type)
{
	char		category;
	bool		preferred;

	get_type_category_preferred(type, &category, &preferred);
	return category == TYPCATEGORY_STRING && get_typlen(type) == -1;
}

/* Work out how the placeholder looks in the staging column of col. */
void
cdc_gaps_describe(CdcColumn *col, Oid target_type, const char *value)
{
	Oid			source = getBaseType(col->source_type);
	Oid			target = getBaseType(target_type);
	Oid			elem = get_element_type(source);

	if (value == NULL)
		return;
	col->markers = palloc(sizeof(CdcMarker) * CDC_GAP_MARKERS);
	if (cdc_type_is_text_like(source))
		add_text_markers(col, target, value);
	else if (source == BYTEAOID)
		add_marker(col, pstrdup(value));
	else if (source == JSONOID)
		add_marker(col, psprintf("\"%s\"", value));
	else if (source == JSONBOID)
		col->marker_jsonb = true;
	else if (OidIsValid(elem) && (cdc_type_is_text_like(elem) || elem == BYTEAOID))
		col->marker_elem = elem;
	if (col->marker_jsonb || OidIsValid(col->marker_elem))
		add_marker(col, pstrdup(value));
}

static bool
bytes_are_marker(const CdcColumn *col, const char *bytes, Size len)
{
	for (int i = 0; i < col->nmarkers; i++)
		if (len == col->markers[i].len && memcmp(bytes, col->markers[i].bytes, len) == 0)
			return true;
	return false;
}

/*
 * The bytes of a value that is no longer than this without its header, NULL
 * for a longer one, which is not fetched for that.
 */
static struct varlena *
fetch_short(Datum value, Size longest)
{
	struct varlena *v = (struct varlena *) DatumGetPointer(value);

	if (cdc_varlena_is_plain(v))
		return VARSIZE_ANY_EXHDR(v) <= longest ? v : NULL;
	/* in a wide row even a short value may be out of line */
	return toast_raw_datum_size(value) - VARHDRSZ <= longest ? PG_DETOAST_DATUM_PACKED(value) : NULL;
}

/* Is the (non-null) staging value the placeholder for "not carried"? */
static bool
is_marker(const CdcColumn *col, Datum value)
{
	Size		longest = 0;
	struct varlena *v;

	for (int i = 0; i < col->nmarkers; i++)
		longest = Max(longest, col->markers[i].len);
	if (longest == 0)
		return false;
	/* as jsonb, or in an array, it has something around it */
	if (col->marker_jsonb || OidIsValid(col->marker_elem))
		longest += CDC_GAP_AROUND;
	v = fetch_short(value, longest);
	if (v == NULL)
		return false;
	if (col->marker_jsonb)
	{
		Jsonb	   *jb = DatumGetJsonbP(PointerGetDatum(v));
		JsonbValue	scalar;

		return JB_ROOT_IS_SCALAR(jb) && JsonbExtractScalar(&jb->root, &scalar) &&
			scalar.type == jbvString &&
			bytes_are_marker(col, scalar.val.string.val, scalar.val.string.len);
	}
	if (OidIsValid(col->marker_elem))
	{
		ArrayType  *array = DatumGetArrayTypeP(PointerGetDatum(v));
		Datum	   *elems;
		bool	   *nulls;
		int			n;

		if (ARR_NDIM(array) != 1 || ARR_DIMS(array)[0] != 1)
			return false;
		deconstruct_array(array, col->marker_elem, -1, false, TYPALIGN_INT, &elems, &nulls, &n);
		if (n != 1 || nulls[0])
			return false;
		v = PG_DETOAST_DATUM_PACKED(elems[0]);
	}
	return bytes_are_marker(col, VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v));
}

/* ---------- one row ---------- */

static void
set_gap(uint8 *gaps, int col, bool *any)
{
	gaps[col >> 3] |= 1 << (col & 7);
	*any = true;
}

static void
gaps_by_name(CdcColumns *cols, uint8 *gaps, const char *name, int len, bool *any)
{
	for (int i = 0; i < cols->ncols; i++)
		if (strlen(cols->cols[i].name) == len && memcmp(cols->cols[i].name, name, len) == 0)
			set_gap(gaps, i, any);
}

/* The list of columns that an event says it does not carry. */
static void
gaps_from_list(CdcColumns *cols, Oid type, Datum value, uint8 *gaps, bool *any)
{
	Datum	   *elems;
	bool	   *nulls;
	int			n;

	if (type == JSONBOID)
	{
		Jsonb	   *jb = DatumGetJsonbP(value);
		JsonbIterator *it;
		JsonbIteratorToken tok;
		JsonbValue	v;

		if (JB_ROOT_IS_SCALAR(jb) && JsonbExtractScalar(&jb->root, &v) && v.type == jbvNull)
			return;
		if (!JB_ROOT_IS_ARRAY(jb) || JB_ROOT_IS_SCALAR(jb))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("a list of unchanged columns is not a JSON array: %s",
							cdc_value_text(type, value, false)),
					 errhint("A list is an array of column names, such as [\"body\"].")));
		it = JsonbIteratorInit(&jb->root);
		while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
			if (tok == WJB_ELEM && v.type == jbvString)
				gaps_by_name(cols, gaps, v.val.string.val, v.val.string.len, any);
		return;
	}
	if (type == NAMEARRAYOID)
		deconstruct_array(DatumGetArrayTypeP(value), NAMEOID, NAMEDATALEN, false, TYPALIGN_CHAR,
						  &elems, &nulls, &n);
	else
		deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT,
						  &elems, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			continue;
		if (type == NAMEARRAYOID)
			gaps_by_name(cols, gaps, NameStr(*DatumGetName(elems[i])),
						 strlen(NameStr(*DatumGetName(elems[i]))), any);
		else
			gaps_by_name(cols, gaps, VARDATA_ANY(DatumGetPointer(elems[i])),
						 VARSIZE_ANY_EXHDR(DatumGetPointer(elems[i])), any);
	}
}

/*
 * Does a row, as it stands on its page, surely have no placeholder?  It would
 * be among its bytes, unless it stands out of line.
 */
bool
cdc_gaps_none(const CdcColumns *cols, HeapTuple row)
{
	const char *bytes = (char *) row->t_data + row->t_data->t_hoff;
	Size		len = row->t_len - row->t_data->t_hoff;

	if (cols->markers_hide || HeapTupleHasExternal(row))
		return cols->nmarkers == 0;
	for (int i = 0; i < cols->nmarkers; i++)
	{
		const CdcMarker *marker = &cols->markers[i];
		const char *at = bytes;
		const char *last = bytes + len - marker->len;

		if (marker->len > len)
			continue;
		while (at <= last && (at = memchr(at, marker->bytes[0], last - at + 1)) != NULL)
		{
			if (memcmp(at, marker->bytes, marker->len) == 0)
				return false;
			at++;
		}
	}
	return true;
}

/* All placeholders of all columns, each once. */
void
cdc_gaps_gather(CdcColumns *cols)
{
	cols->markers = palloc(sizeof(CdcMarker) * (CDC_GAP_MARKERS * cols->ncols + 1));
	for (int i = 0; i < cols->ncols; i++)
		for (int m = 0; m < cols->cols[i].nmarkers; m++)
		{
			const CdcMarker *marker = &cols->cols[i].markers[m];
			bool		known = false;

			for (int k = 0; k < cols->nmarkers; k++)
				known |= cols->markers[k].len == marker->len &&
					memcmp(cols->markers[k].bytes, marker->bytes, marker->len) == 0;
			if (!known)
				cols->markers[cols->nmarkers++] = *marker;
			cols->markers_hide |= marker->len >= CDC_GAP_COMPRESSIBLE;
		}
}

/*
 * Find the columns that a staging row does not carry: those of its lists, those
 * with the placeholder and, with ignore_nulls, NULLs.  values and isnull are by
 * applied column.  Sets bits in gaps, and, where staging has such a list, those
 * that its source lacks behind them; false when the row carries all.
 */
bool
cdc_gaps_find(CdcColumns *cols, const CdcGapList *unchanged, const CdcGapList *absent,
			  bool ignore_nulls, const Datum *values, const bool *isnull, uint8 *gaps)
{
	int			bytes = cdc_gap_bytes(cols);
	bool		any = false;

	memset(gaps, 0, cols->absent_attno != 0 ? bytes * 2 : bytes);
	if (!absent->isnull)
	{
		gaps_from_list(cols, absent->type, absent->names, gaps + bytes, &any);
		memcpy(gaps, gaps + bytes, bytes);
	}
	if (!unchanged->isnull)
		gaps_from_list(cols, unchanged->type, unchanged->names, gaps, &any);
	for (int i = 0; i < cols->ncols; i++)
	{
		if (isnull[i])
		{
			if (ignore_nulls)
				set_gap(gaps, i, &any);
		}
		else if (is_marker(&cols->cols[i], values[i]))
			set_gap(gaps, i, &any);
	}
	return any;
}
