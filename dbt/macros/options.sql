{# What a model may say: cdc_<parameter>, in config() or in its meta. #}

{% macro option(name, default=none) %}
  {%- set meta = config.get('meta') or {} -%}
  {%- set value = meta['cdc_' ~ name] if ('cdc_' ~ name) in meta else config.get('cdc_' ~ name, none) -%}
  {{ return(default if value is none else value) }}
{% endmacro %}

{% macro choice(name, allowed, default) %}
  {%- set value = cdc_precedence.option(name, default) -%}
  {%- if value not in allowed -%}
    {%- do exceptions.raise_compiler_error("cdc_" ~ name ~ " is '" ~ value ~ "'; it can be " ~ (allowed | join(', '))) -%}
  {%- endif -%}
  {{ return(value) }}
{% endmacro %}

{% macro list_option(name, default=none) %}
  {%- set value = cdc_precedence.option(name) -%}
  {%- if value is none -%}
    {{ return(default) }}
  {%- endif -%}
  {{ return([value] if value is string else value | list) }}
{% endmacro %}

{# -- a name that may be written with its quotes, as unique_key is for other materializations #}
{% macro bare(name) %}
  {%- if name | length > 1 and name[0] == '"' and name[-1] == '"' -%}
    {{ return(name[1:-1] | replace('""', '"')) }}
  {%- endif -%}
  {{ return(name) }}
{% endmacro %}

{#
  unique_key as names of columns: as they are written, else in lower case, as
  the server would take an unquoted name.
#}
{% macro key_of(names) %}
  {%- set unique_key = config.get('unique_key') -%}
  {%- if not unique_key -%}
    {%- do exceptions.raise_compiler_error("a cdc model needs a unique_key: the key columns of the events") -%}
  {%- endif -%}
  {%- set key = [] -%}
  {%- for each in ([unique_key] if unique_key is string else unique_key) -%}
    {%- set name = cdc_precedence.bare(each) -%}
    {%- if name in names -%}
      {%- do key.append(name) -%}
    {%- elif name | lower in names -%}
      {%- do key.append(name | lower) -%}
    {%- else -%}
      {%- do exceptions.raise_compiler_error("unique_key names " ~ each ~ ", which the model does not have; it has "
        ~ (names | join(', '))) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(key) }}
{% endmacro %}

{# -- parameters that cdc_apply takes as text, in the model's own words #}
{% macro apply_parameters() %}
  {{ return(['staging_position', 'staging_filter', 'op_column', 'default_op', 'delete_flag_column', 'unchanged_column',
    'null_op', 'unavailable_value', 'on_unavailable', 'ignore_nulls', 'snapshot_position', 'on_tie', 'on_same_position',
    'consume', 'expect_events', 'lineage']) }}
{% endmacro %}

{#
  The temporary view of the model's SQL, in this session only.  It is made again
  where the schema changes, since a model may read its own table.
#}
{% macro create_events(target, sql) %}
  {%- set events = api.Relation.create(schema='pg_temp', identifier=target.identifier[:51] ~ '__cdc_events') -%}
  {%- set sql_header = config.get('sql_header', none) -%}
  {%- call statement('cdc_events') -%}
    {{ sql_header if sql_header is not none }}
    create view {{ events }} as
    {{ sql }}
  {%- endcall -%}
  {{ return(events) }}
{% endmacro %}

{#
  What the columns of the events are: key; position; data, which the table gets
  (the key too); the rest only says what an event is, or, as the column that
  unread() compares, which transaction has loaded it.
#}
{% macro shape_of(events, target) %}
  {%- set known = cdc_precedence.attached(target) -%}
  {%- set columns = cdc_precedence.columns_of(events) -%}
  {%- set names = columns | map(attribute='name') | list -%}
  {%- set key = cdc_precedence.key_of(names) -%}
  {%- set positions = cdc_precedence.list_option('position_columns', known.positions if known else ['source_position']) -%}
  {%- set tombstone_column = cdc_precedence.option('tombstone_column') -%}
  {%- set home = 'row' if tombstone_column
    else cdc_precedence.choice('tombstones', ['table', 'row'], known.home if known else 'table') -%}
  {%- if home == 'row' and not tombstone_column -%}
    {%- set tombstone_column = known.tombstone_column if known and known.tombstone_column else 'deleted' -%}
  {%- endif -%}
  {%- set old_key = cdc_precedence.list_option('old_key_columns') -%}
  {%- if old_key is none -%}
    {%- set old_key = [] -%}
    {%- for name in key -%}
      {%- do old_key.append('__old_' ~ name) -%}
    {%- endfor -%}
  {%- endif -%}
  {%- set aside = positions + old_key + cdc_precedence.list_option('except_columns', [])
    + [cdc_precedence.option('op_column', 'op'), cdc_precedence.option('unchanged_column', '__unchanged'), '__absent',
       cdc_precedence.option('delete_flag_column', ''), (tombstone_column if home == 'row' else '')] -%}
  {%- set bookmark = cdc_precedence.option('bookmark_column', 'loaded_xid') -%}
  {%- set data = [] -%}
  {%- for column in columns if column.name in key or not (column.name in aside or (column.name == bookmark and column.type == 'xid8')) -%}
    {%- do data.append(column) -%}
  {%- endfor -%}
  {%- if cdc_precedence.option('staging_position') is none -%}
    {%- for name in positions if name not in names -%}
      {%- do exceptions.raise_compiler_error("the model has no column " ~ name ~ ", the position of each event in its source's log:"
        ~ " select it (for example cdc_position(commit_lsn, seq) as " ~ name ~ "), or set cdc_staging_position") -%}
    {%- endfor -%}
  {%- endif -%}
  {{ return({'key': key, 'positions': positions, 'data': data, 'names': names, 'home': home,
             'tombstone_column': tombstone_column if home == 'row' else none}) }}
{% endmacro %}
