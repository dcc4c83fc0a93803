{# For models and tests that read: live rows, and the latest by hand. #}

{#
  The live rows of a cdc model, as what follows FROM.  In the side-table home
  that is the table itself.
#}
{% macro live(relation) %}
  {%- if not execute -%}
    {{ return(relation) }}
  {%- endif -%}
  {%- set known = cdc_precedence.attached(relation) -%}
  {%- if known is none -%}
    {%- if adapter.get_relation(relation.database, relation.schema, relation.identifier) is none -%}
      {{ return(relation) }}
    {%- endif -%}
    {%- do exceptions.raise_compiler_error(relation ~ ' is not attached: which of its rows are live is not known') -%}
  {%- endif -%}
  {%- if known.home == 'table' -%}
    {{ return(relation) }}
  {%- endif -%}
  {%- set flag = cdc_precedence.quoted(known.tombstone_column) -%}
  {{ return('(select * from ' ~ relation ~ ' where ' ~ flag ~ (' is not true' if known.tombstone_type == 'boolean' else ' is null') ~ ')') }}
{% endmacro %}

{#
  The newest version of each key in a relation of events, without the deleted
  ones, as what follows FROM: latest_by_position() first, then the filter.

  events: a relation, or SQL in parentheses.  position: an expression over its
  columns.  deleted: a condition over them that is true of a delete.
#}
{% macro latest(events, unique_key, position='source_position', op_column='op', deleted=none) %}
  {%- set key = [] -%}
  {%- for each in ([unique_key] if unique_key is string else unique_key) -%}
    {%- do key.append(cdc_precedence.quoted(cdc_precedence.bare(each))) -%}
  {%- endfor -%}
  {%- set schema = cdc_precedence.schema() -%}
  {%- set condition = deleted or cdc_precedence.is_delete(cdc_precedence.quoted(op_column)) -%}
  {{ return('(select * from (select (' ~ schema ~ '.latest_by_position(e, (' ~ position ~ ')::' ~ schema ~ '.cdc_position)).*'
    ~ ' from ' ~ events ~ ' as e where not coalesce(' ~ cdc_precedence.is_retraction(cdc_precedence.quoted(op_column), deleted) ~ ', false)'
    ~ ' group by ' ~ (key | join(', ')) ~ ') as newest where not coalesce(' ~ condition ~ ', false))') }}
{% endmacro %}

{# -- the ops that cdc_apply takes for a delete; before images say nothing that the after image does not #}
{% macro is_delete(op) %}
  {{ return("lower(trim(" ~ op ~ "::text)) in ('d', 'delete', '-d', '1')") }}
{% endmacro %}

{% macro is_retraction(op, deleted) %}
  {{ return('false' if deleted else "lower(trim(" ~ op ~ "::text)) in ('-u', 'update_before', '3')") }}
{% endmacro %}

{# -- the key of a tested table: as said, else as attached #}
{% macro key_for_test(test, model, known, unique_key) %}
  {%- if not unique_key and not known -%}
    {%- do exceptions.raise_compiler_error(test ~ ': ' ~ model ~ ' is not attached, so the test needs unique_key') -%}
  {%- endif -%}
  {%- if not unique_key -%}
    {{ return(known.key) }}
  {%- endif -%}
  {%- set key = [] -%}
  {%- for each in ([unique_key] if unique_key is string else unique_key) -%}
    {%- do key.append(cdc_precedence.bare(each)) -%}
  {%- endfor -%}
  {{ return(key) }}
{% endmacro %}

{# -- a test's log, a relation or SQL in parentheses, has the key by name, the op, and the position if that is a column #}
{% macro assert_log(test, model, log, key, position, op_column) %}
  {%- set there = get_columns_in_query('select * from ' ~ log ~ ' as e') -%}
  {%- set needed = key + ([op_column] if op_column else [])
    + ([position] if position and modules.re.match('^[A-Za-z_][A-Za-z0-9_$]*$', position) else []) -%}
  {%- set missing = needed | reject('in', there) | list -%}
  {%- if missing -%}
    {%- do exceptions.raise_compiler_error(test ~ ': the log of ' ~ model ~ ' has no column ' ~ cdc_precedence.quoted_list(missing)
      ~ '. It needs the key by name (' ~ cdc_precedence.quoted_list(key) ~ "), what an event is (op_column) and the position: a raw"
      ~ ' landing does not have them. Give an event view, the model of the events, or SQL in parentheses that selects them; it has '
      ~ (there | join(', '))) -%}
  {%- endif -%}
{% endmacro %}
