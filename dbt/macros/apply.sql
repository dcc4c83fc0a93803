{# Creating, attaching and applying: what every run does. #}

{#
  An enforced contract speaks of the table: the data columns and, if it lists
  them, the columns of the law, whose types are its own.  What only says what an
  event is, such as op, is not in it.
#}
{% macro assert_contract(events, shape) %}
  {%- set contract = config.get('contract') -%}
  {%- if contract and contract.enforced -%}
    {%- set columns = [cdc_precedence.quoted_list(shape.data | map(attribute='name'))] -%}
    {%- for name in shape.positions + [shape.tombstone_column] if name and name in model['columns'] -%}
      {%- do columns.append('null::' ~ model['columns'][name]['data_type'] ~ ' as ' ~ cdc_precedence.quoted(name)) -%}
    {%- endfor -%}
    {%- do get_assert_columns_equivalent('select ' ~ (columns | join(', ')) ~ ' from ' ~ events) -%}
  {%- endif -%}
{% endmacro %}

{# -- an empty table: never the events themselves, which only cdc_apply turns into rows #}
{% macro create_target(target, events, shape) %}
  {%- set contract = config.get('contract') -%}
  {%- call statement('cdc_create') -%}
    create {{ 'unlogged ' if config.get('unlogged', default=false) }}table {{ target }}
    {% if contract and contract.enforced -%}
      {{ get_table_columns_and_constraints() }}
    {%- else -%}
      as select {{ cdc_precedence.quoted_list(shape.data | map(attribute='name')) }} from {{ events }} with no data
    {%- endif %}
  {%- endcall -%}
  {%- if not cdc_precedence.key_index(target, shape.key) -%}
    {%- set has_primary_key = cdc_precedence.json_of("select (exists (select from pg_catalog.pg_index where indrelid = "
      ~ cdc_precedence.regclass(target) ~ " and indisprimary))::text") -%}
    {%- call statement('cdc_key') -%}
      {% if has_primary_key -%}
        create unique index on {{ target }} ({{ cdc_precedence.quoted_list(shape.key) }})
      {%- else -%}
        alter table {{ target }} add primary key ({{ cdc_precedence.quoted_list(shape.key) }})
      {%- endif %}
    {%- endcall -%}
  {%- endif -%}
{% endmacro %}

{# -- is there an index that cdc_apply can find rows of this key by? #}
{% macro key_index(target, key) %}
  {{ return(cdc_precedence.json_of(
    "select (exists (select from pg_catalog.pg_index i where i.indrelid = " ~ cdc_precedence.regclass(target)
    ~ " and i.indisunique and i.indisvalid and i.indimmediate and i.indpred is null and i.indexprs is null"
    ~ " and (select array_agg(a.attname order by a.attname) from pg_catalog.pg_attribute a where a.attrelid = i.indrelid"
    ~ "   and a.attnum = any ((i.indkey::int2[])[0:i.indnkeyatts - 1]))"
    ~ " = (select array_agg(k order by k) from unnest(" ~ cdc_precedence.name_array(key) ~ ") k)))::text")) }}
{% endmacro %}

{#
  The indexes of the config that are not there yet.  dbt gives each a new name
  in every run, so they are known by what they index.
#}
{% macro create_missing_indexes(target) %}
  {%- for each in config.get('indexes', default=[]) -%}
    {%- set index = adapter.parse_index(each) -%}
    {%- set columns = [] -%}
    {%- for column in index.columns -%}
      {%- do columns.append(cdc_precedence.bare(column)) -%}
    {%- endfor -%}
    {%- set there = cdc_precedence.json_of(
      "select (exists (select from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid"
      ~ " join pg_catalog.pg_am m on m.oid = c.relam where i.indrelid = " ~ cdc_precedence.regclass(target)
      ~ " and i.indisvalid and i.indpred is null and i.indexprs is null"
      ~ " and m.amname = " ~ cdc_precedence.literal(index.type or 'btree')
      ~ (" and i.indisunique" if index.unique else "")
      ~ " and (select array_agg(a.attname order by k.place) from unnest(i.indkey::int2[]) with ordinality k(attnum, place)"
      ~ "   join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum)"
      ~ " = " ~ cdc_precedence.name_array(columns) ~ "))::text") -%}
    {%- if not there -%}
      {%- set create = get_create_index_sql(target, each) -%}
      {%- if create -%}
        {%- call statement('cdc_index') -%}
          {{ create }}
        {%- endcall -%}
      {%- endif -%}
    {%- endif -%}
  {%- endfor -%}
{% endmacro %}

{#
  cdc_attach, in every run: a repeat changes only what the config names anew.  A
  lineage that is recorded is left to cdc_apply, whose error says what to do.
#}
{% macro attach(target, shape) %}
  {%- set known = cdc_precedence.attached(target) -%}
  {%- set lineage = cdc_precedence.option('lineage') if not (known and known.lineage) else none -%}
  {%- set epoch = cdc_precedence.option('epoch') if not known else none -%}
  {%- call statement('cdc_attach') -%}
    select {{ cdc_precedence.schema() }}.cdc_attach({{ cdc_precedence.regclass(target) }},
      key_columns => {{ cdc_precedence.name_array(shape.key) }},
      position_columns => {{ cdc_precedence.name_array(shape.positions) }},
      tombstone_column => {{ cdc_precedence.literal(shape.tombstone_column) }},
      tombstones => {{ cdc_precedence.literal(shape.home) }},
      guard => {{ cdc_precedence.literal(cdc_precedence.option('guard')) }},
      live_view => {{ cdc_precedence.literal(cdc_precedence.option('live_view')) }},
      as_of => {{ cdc_precedence.literal(cdc_precedence.option('as_of')) }},
      lineage => {{ cdc_precedence.literal(lineage) }},
      epoch => {{ cdc_precedence.literal(epoch) }})
  {%- endcall -%}
{% endmacro %}

{# -- cdc_apply of the events; the counts as a dictionary.  Unseen here: its warnings, which stand in the server's log #}
{% macro apply(target, events, shape, on_same_position=none) %}
  {%- set arguments = [] -%}
  {%- for name in cdc_precedence.apply_parameters() -%}
    {%- set value = cdc_precedence.option(name) -%}
    {%- if name == 'on_same_position' and on_same_position is not none -%}
      {%- set value = on_same_position -%}
    {%- elif name == 'consume' and flags.EMPTY -%}
      {%- set value = none -%}
    {%- endif -%}
    {%- if value is not none -%}
      {%- do arguments.append(name ~ ' => ' ~ cdc_precedence.literal(value)) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for name in ['old_key_columns', 'except_columns'] -%}
    {%- set value = cdc_precedence.list_option(name) -%}
    {%- if value is not none -%}
      {%- do arguments.append(name ~ ' => ' ~ cdc_precedence.name_array(value)) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set op_map = cdc_precedence.option('op_map') -%}
  {%- if op_map is not none -%}
    {%- do arguments.append('op_map => ' ~ cdc_precedence.literal(op_map if op_map is string else tojson(op_map))) -%}
  {%- endif -%}
  {#- -- the difference of columns was seen to already -#}
  {%- do arguments.append("on_schema_change => 'ignore'") -%}
  {%- set counts = cdc_precedence.json_of('select to_json(r)::text from ' ~ cdc_precedence.schema() ~ '.cdc_apply('
    ~ cdc_precedence.regclass(target) ~ ', ' ~ cdc_precedence.regclass(events) ~ ', '
    ~ (arguments | join(', ')) ~ ') r') -%}
  {%- if counts.fenced -%}
    {%- do exceptions.warn(model.name ~ ': ' ~ counts.fenced ~ " event(s) for dead keys at or below the table's fence were"
      ~ ' not applied: a replay, or late inserts (the fence was not safe)') -%}
  {%- endif -%}
  {%- if counts.events and counts.stale == counts.events and not flags.EMPTY -%}
    {%- do exceptions.warn(model.name ~ ': all ' ~ counts.events ~ ' event(s) are older than what is stored: a replay,'
      ~ ' or a log that started over (cdc_new_epoch)') -%}
  {%- endif -%}
  {{ return(counts) }}
{% endmacro %}

{# -- what the run's line shows: the counts that are not 0 #}
{% macro message(counts, how='', result=none) %}
  {%- set parts = [] -%}
  {%- for name in ['inserted', 'updated', 'deleted', 'stale', 'duplicate', 'superseded', 'fenced', 'ignored', 'truncated'] -%}
    {%- if counts[name] -%}
      {%- do parts.append(counts[name] ~ ' ' ~ name) -%}
    {%- endif -%}
  {%- endfor -%}
  {%- set text = 'CDC ' ~ (how ~ ' ' if how else '') ~ counts.events ~ ' events' ~ (': ' if parts else '') ~ (parts | join(', ')) -%}
  {%- if result is not none -%}
    {%- set text = text ~ '; ' ~ result.live ~ ' rows before, ' ~ result.lost ~ ' not confirmed' -%}
  {%- endif -%}
  {{ return(text) }}
{% endmacro %}
