/*-------------------------------------------------------------------------
 *
 * cdc_op.c
 *		The op vocabulary: from an op value to the class of the event.
 *
 * Spellings are those of Debezium, wal2json, Flink, SQL Server CDC and plain
 * words; case and surrounding spaces do not count, except for wal2json's B
 * and C, which frame transactions.  What a word becomes is looked up once:
 * decoded values are remembered, since a feed has a handful of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "utils/builtins.h"
#include "utils/formatting.h"
#include "utils/lsyscache.h"

#include "cdc_apply.h"

typedef struct CdcOpWord
{
	const char *word;			/* lower case */
	CdcClass	class;
	bool		second;
} CdcOpWord;

static const CdcOpWord op_words[] = {
	{"c", CDC_UPSERT, false},
	{"i", CDC_UPSERT, false},
	{"insert", CDC_UPSERT, false},
	{"create", CDC_UPSERT, false},
	{"u", CDC_UPSERT, false},
	{"update", CDC_UPSERT, false},
	{"upsert", CDC_UPSERT, false},
	{"+i", CDC_UPSERT, false},
	{"2", CDC_UPSERT, false},
	{"+u", CDC_UPSERT, true},
	{"update_after", CDC_UPSERT, true},
	{"4", CDC_UPSERT, true},
	{"r", CDC_SNAPSHOT, false},
	{"read", CDC_SNAPSHOT, false},
	{"snapshot", CDC_SNAPSHOT, false},
	{"d", CDC_DELETE, false},
	{"delete", CDC_DELETE, false},
	{"-d", CDC_DELETE, false},
	{"1", CDC_DELETE, false},
	{"-u", CDC_RETRACTION, false},
	{"update_before", CDC_RETRACTION, false},
	{"3", CDC_RETRACTION, false},
	{"t", CDC_TRUNCATE, false},
	{"truncate", CDC_TRUNCATE, false},
	{"m", CDC_IGNORE, false},
	{"message", CDC_IGNORE, false},
	{"begin", CDC_IGNORE, false},
	{"commit", CDC_IGNORE, false},
};

/* the classes that op_map may name */
static const CdcOpWord class_words[] = {
	{"upsert", CDC_UPSERT, false},
	{"snapshot", CDC_SNAPSHOT, false},
	{"delete", CDC_DELETE, false},
	{"retraction", CDC_RETRACTION, false},
	{"truncate", CDC_TRUNCATE, false},
	{"ignore", CDC_IGNORE, false},
};

/* Decoded values that are remembered; a feed has a handful. */
#define CDC_OP_CACHE	16

/* Longest value remembered; op words are far shorter. */
#define CDC_OP_CACHE_LEN	24

struct CdcOps
{
	int			nmap;
	char	  **map_word;		/* lower case, trimmed */
	CdcClass   *map_class;
	Oid			type;			/* base type of the op column */
	bool		text_like;
	Oid			output;
	CdcOp		single[256];	/* of one byte; class CDC_UNKNOWN: not looked up yet */
	int			ncache;
	struct
	{
		int			len;
		char		text[CDC_OP_CACHE_LEN];
		CdcOp		op;
	}			cache[CDC_OP_CACHE];
};

static char *
normal_word(const char *text, int len)
{
	while (len > 0 && (text[0] == ' ' || text[0] == '\t'))
		text++, len--;
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	return asc_tolower(text, len);
}

static void
read_op_map(CdcOps *ops, Jsonb *op_map)
{
	JsonbIterator *it = JsonbIteratorInit(&op_map->root);
	JsonbIteratorToken tok;
	JsonbValue	v;
	char	   *word = NULL;
	int			n = 0;

	if (!JB_ROOT_IS_OBJECT(op_map))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("op_map must be a JSON object"),
				 errhint("For example {\"X\": \"delete\"}.")));
	ops->map_word = palloc(sizeof(char *) * (JB_ROOT_COUNT(op_map) + 1));
	ops->map_class = palloc(sizeof(CdcClass) * (JB_ROOT_COUNT(op_map) + 1));

	while ((tok = JsonbIteratorNext(&it, &v, true)) != WJB_DONE)
	{
		const CdcOpWord *found = NULL;
		char	   *name;

		if (tok == WJB_KEY)
			word = normal_word(v.val.string.val, v.val.string.len);
		if (tok != WJB_VALUE)
			continue;
		name = v.type == jbvString ? normal_word(v.val.string.val, v.val.string.len) : NULL;
		for (int i = 0; name != NULL && i < lengthof(class_words); i++)
			if (strcmp(class_words[i].word, name) == 0)
				found = &class_words[i];
		if (found == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("op_map gives \"%s\" an unknown meaning", cdc_clip(word)),
					 errhint("Use 'upsert', 'snapshot', 'delete', 'retraction', 'truncate' or 'ignore'.")));
		for (int i = 0; i < n; i++)
			if (strcmp(ops->map_word[i], word) == 0 && ops->map_class[i] != found->class)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("op_map gives \"%s\" two meanings", cdc_clip(word)),
						 errdetail("Case and surrounding spaces of an op do not count.")));
		ops->map_word[n] = word;
		ops->map_class[n++] = found->class;
	}
	ops->nmap = n;
}

/*
 * Make a decoder for values of this type (InvalidOid: only texts).  It lives
 * in the current memory context.
 */
CdcOps *
cdc_ops_create(Jsonb *op_map, Oid type)
{
	CdcOps	   *ops = palloc0(sizeof(CdcOps));

	if (op_map != NULL)
		read_op_map(ops, op_map);
	for (int i = 0; i < lengthof(ops->single); i++)
		ops->single[i].class = CDC_UNKNOWN;
	if (OidIsValid(type))
	{
		bool		varlena;

		ops->type = getBaseType(type);
		ops->text_like = ops->type == TEXTOID || ops->type == VARCHAROID || ops->type == BPCHAROID;
		getTypeOutputInfo(ops->type, &ops->output, &varlena);
	}
	return ops;
}

CdcOp
cdc_op_from_text(CdcOps *ops, const char *text, int len)
{
	CdcOp		op = {CDC_UNKNOWN, false, false};
	char	   *word = normal_word(text, len);

	for (int i = 0; i < ops->nmap; i++)
		if (strcmp(ops->map_word[i], word) == 0)
		{
			op.class = ops->map_class[i];
			return op;
		}
	for (int i = 0; i < lengthof(op_words); i++)
		if (strcmp(op_words[i].word, word) == 0)
		{
			op.class = op_words[i].class;
			op.second = op_words[i].second;
		}

	/* wal2json writes its transaction frames in upper case */
	if (strcmp(word, "b") == 0 || strcmp(word, "c") == 0)
		op.frame = memchr(text, pg_toupper((unsigned char) word[0]), len) != NULL;
	return op;
}

/* The op value as text, for messages and for decoding. */
char *
cdc_op_text(CdcOps *ops, Datum value)
{
	return OidOutputFunctionCall(ops->output, value);
}

CdcOp
cdc_op_decode(CdcOps *ops, Datum value)
{
	const char *text;
	int			len;
	CdcOp		op;

	if (ops->text_like)
	{
		struct varlena *v = (struct varlena *) DatumGetPointer(value);

		if (!cdc_varlena_is_plain(v))
			v = PG_DETOAST_DATUM_PACKED(value);
		text = VARDATA_ANY(v);
		len = VARSIZE_ANY_EXHDR(v);
		if (len == 1 && ops->single[(uint8) text[0]].class != CDC_UNKNOWN)
			return ops->single[(uint8) text[0]];
	}
	else
	{
		text = cdc_op_text(ops, value);
		len = strlen(text);
	}

	for (int i = 0; i < ops->ncache; i++)
		if (ops->cache[i].len == len && memcmp(ops->cache[i].text, text, len) == 0)
			return ops->cache[i].op;

	op = cdc_op_from_text(ops, text, len);
	if (len == 1)
		ops->single[(uint8) text[0]] = op;
	else if (ops->ncache < CDC_OP_CACHE && len <= CDC_OP_CACHE_LEN)
	{
		ops->cache[ops->ncache].len = len;
		memcpy(ops->cache[ops->ncache].text, text, len);
		ops->cache[ops->ncache++].op = op;
	}
	return op;
}

/* The op of events without one: default_op, an upsert when it is NULL. */
CdcOp
cdc_op_default(CdcOps *ops, const char *default_op)
{
	CdcOp		op = {.class = CDC_UPSERT};

	if (default_op != NULL)
		op = cdc_op_from_text(ops, default_op, strlen(default_op));
	if (op.class == CDC_UNKNOWN)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown value for default_op: \"%s\"", cdc_clip(default_op)),
				 errhint("Use an op such as 'upsert', 'snapshot' or 'delete'.")));
	return op;
}
