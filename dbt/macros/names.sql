{# Quoting, names, and what the server knows.  All that follows goes through these. #}

{# -- a text literal, or NULL #}
{% macro literal(value) %}
  {%- if value is none -%}
    {{ return('NULL') }}
  {%- endif -%}
  {{ return("'" ~ (value | string | replace("'", "''")) ~ "'") }}
{% endmacro %}

{# -- name[]; an empty list stays one: it says "none", where NULL says "as by default" #}
{% macro name_array(names) %}
  {%- if names is none -%}
    {{ return('NULL') }}
  {%- endif -%}
  {%- set parts = [] -%}
  {%- for name in names -%}
    {%- do parts.append(cdc_precedence.literal(name)) -%}
  {%- endfor -%}
  {{ return('array[' ~ (parts | join(', ')) ~ ']::name[]') }}
{% endmacro %}

{# -- an identifier, always quoted #}
{% macro quoted(name) %}
  {{ return('"' ~ (name | replace('"', '""')) ~ '"') }}
{% endmacro %}

{# -- "a", "b", each with a prefix such as t. #}
{% macro quoted_list(names, prefix='') %}
  {%- set parts = [] -%}
  {%- for name in names -%}
    {%- do parts.append(prefix ~ cdc_precedence.quoted(name)) -%}
  {%- endfor -%}
  {{ return(parts | join(', ')) }}
{% endmacro %}

{# -- t."a" = n."a" and .. #}
{% macro same_key(key, left, right) %}
  {%- set parts = [] -%}
  {%- for name in key -%}
    {%- set column = cdc_precedence.quoted(name) -%}
    {%- do parts.append(left ~ '.' ~ column ~ ' = ' ~ right ~ '.' ~ column) -%}
  {%- endfor -%}
  {{ return(parts | join(' and ')) }}
{% endmacro %}

{# -- a relation's name, without the database: both parts quoted #}
{% macro relation_name(relation) %}
  {%- set name = cdc_precedence.quoted(relation.identifier) -%}
  {{ return(cdc_precedence.quoted(relation.schema) ~ '.' ~ name if relation.schema else name) }}
{% endmacro %}

{% macro regclass(relation) %}
  {{ return(cdc_precedence.literal(cdc_precedence.relation_name(relation)) ~ '::regclass') }}
{% endmacro %}

{# -- one JSON value from a query that gives one text #}
{% macro json_of(query) %}
  {%- call statement('cdc_json', fetch_result=True, auto_begin=False) -%}
    {{ query }}
  {%- endcall -%}
  {%- set rows = load_result('cdc_json')['data'] -%}
  {{ return(fromjson(rows[0][0]) if rows and rows[0][0] is not none else none) }}
{% endmacro %}

{#
  The extension's schema, quoted: the variable "schema" of this package
  (vars: {cdc_precedence: {schema: cdc}}), else wherever it is.
#}
{% macro schema() %}
  {%- set declared = (var('cdc_precedence', none) or {}).get('schema') -%}
  {%- if declared -%}
    {{ return(cdc_precedence.quoted(declared)) }}
  {%- endif -%}
  {%- if not execute -%}
    {{ return('public') }}
  {%- endif -%}
  {%- set found = cdc_precedence.json_of(
    "select (select to_json(n.nspname::text)::text from pg_catalog.pg_extension e"
    ~ " join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'cdc_precedence')") -%}
  {%- if found is none -%}
    {%- do exceptions.raise_compiler_error("the extension cdc_precedence is not in database " ~ target.dbname
      ~ ": CREATE EXTENSION cdc_precedence (or on-run-start in dbt_project.yml)") -%}
  {%- endif -%}
  {{ return(cdc_precedence.quoted(found)) }}
{% endmacro %}

{#
  What cdc_targets says of a table: home, key, position column, tombstones,
  fence ..; none if it is not attached.
#}
{% macro attached(relation) %}
  {{ return(cdc_precedence.json_of(
    "select (select json_build_object('home', t.home, 'key', t.key_columns, 'positions', t.position_columns,"
    ~ " 'tombstones', t.tombstones::text, 'tombstone_column', t.tombstone_column,"
    ~ " 'tombstone_type', (select a.atttypid::regtype::text from pg_catalog.pg_attribute a"
    ~ "   where a.attrelid = t.target and a.attname = t.tombstone_column),"
    ~ " 'fence', t.fence::text, 'floor', t.floor::text, 'epoch', t.epoch, 'lineage', t.lineage,"
    ~ " 'guard', t.guard, 'live_view', t.live_view::text)::text"
    ~ " from " ~ cdc_precedence.schema() ~ ".cdc_targets t where t.target = to_regclass("
    ~ cdc_precedence.literal(cdc_precedence.relation_name(relation)) ~ "))")) }}
{% endmacro %}

{#
  The columns of a relation as the catalog has them.  dbt's own list takes types
  from information_schema, which calls every type of an extension USER-DEFINED.
#}
{% macro columns_of(relation) %}
  {{ return(cdc_precedence.json_of(
    "select coalesce(json_agg(json_build_object('name', a.attname,"
    ~ " 'type', pg_catalog.format_type(a.atttypid, a.atttypmod),"
    ~ " 'collation', case when a.attcollation <> t.typcollation then (select pg_catalog.quote_ident(n.nspname)"
    ~ "   || '.' || pg_catalog.quote_ident(c.collname) from pg_catalog.pg_collation c"
    ~ "   join pg_catalog.pg_namespace n on n.oid = c.collnamespace where c.oid = a.attcollation) end,"
    ~ " 'generated', a.attgenerated <> '') order by a.attnum), '[]')::text"
    ~ " from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid"
    ~ " where a.attrelid = " ~ cdc_precedence.regclass(relation) ~ " and a.attnum > 0 and not a.attisdropped")) }}
{% endmacro %}
