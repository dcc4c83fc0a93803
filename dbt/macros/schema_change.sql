{#
  The columns of the model against those of the table, by the types that the
  catalog has.  Only columns that the model has fed can ever be dropped: the
  position, the tombstone column, and columns that somebody added to the table
  (derived ones) are none of the model's.

  on_schema_change   new columns   columns no longer fed   other types
  ignore             left out      error                   converted
  append_new_columns added         error                   converted
  sync_all_columns   added         dropped                 altered
  fail               error         error                   error

  A column that stops being fed would keep old values for ever, so that no
  setting but sync_all_columns goes on.  A full refresh in place or by swap
  takes the model's shape whatever the setting; a replay adds columns.

  Returns the names of the columns that are fed from now on.
#}
{% macro change_schema(target, events, shape, sql, full_refresh, how) %}
  {%- set mode = config.get('on_schema_change') or 'ignore' -%}
  {%- if mode not in ['ignore', 'append_new_columns', 'sync_all_columns', 'fail'] -%}
    {%- do exceptions.raise_compiler_error("on_schema_change is '" ~ mode ~ "'; it can be ignore, append_new_columns,"
      ~ " sync_all_columns, fail") -%}
  {%- endif -%}
  {%- if full_refresh and how != 'replay' -%}
    {%- set mode = 'sync_all_columns' -%}
  {%- elif full_refresh and mode in ['ignore', 'fail'] -%}
    {%- set mode = 'append_new_columns' -%}
  {%- endif -%}

  {%- set there = cdc_precedence.columns_of(target) -%}
  {%- set there_names = there | map(attribute='name') | list -%}
  {%- set data_names = shape.data | map(attribute='name') | list -%}
  {%- set known = cdc_precedence.state(target) -%}
  {%- set law = shape.key + shape.positions + ([shape.tombstone_column] if shape.tombstone_column else []) -%}

  {%- set added = [] -%}
  {%- set retyped = [] -%}
  {%- set removed = [] -%}
  {%- for column in shape.data -%}
    {%- if column.name not in there_names -%}
      {%- do added.append(column) -%}
    {%- else -%}
      {%- for old in there if old.name == column.name and old.type != column.type and not old.generated -%}
        {%- do retyped.append({'name': column.name, 'type': column.type, 'old': old.type}) -%}
      {%- endfor -%}
    {%- endif -%}
  {%- endfor -%}
  {%- for name in (known.fed if known else []) -%}
    {%- if name in there_names and name not in data_names and name not in law -%}
      {%- do removed.append(name) -%}
    {%- endif -%}
  {%- endfor -%}

  {#- -- a table taken over: what its former writer fed, and this model does not -#}
  {%- if not known -%}
    {%- set unfed = [] -%}
    {%- for column in there if not column.generated and column.name not in data_names + law -%}
      {%- do unfed.append(column.name) -%}
    {%- endfor -%}
    {%- if unfed -%}
      {%- do exceptions.warn(model.name ~ ': columns of ' ~ target ~ ' that its model does not feed keep what they have, and are NULL'
        ~ ' or their default in new rows: ' ~ (unfed | join(', ')) ~ '. Drop them if nobody else writes them') -%}
    {%- endif -%}
  {%- endif -%}

  {%- set facts = [] -%}
  {%- for column in added -%}
    {%- do facts.append('new: ' ~ column.name ~ ' ' ~ column.type) -%}
  {%- endfor -%}
  {%- for name in removed -%}
    {%- do facts.append('no longer in the model: ' ~ name) -%}
  {%- endfor -%}
  {%- for column in retyped -%}
    {%- do facts.append('other type: ' ~ column.name ~ ' ' ~ column.old ~ ' in the table, ' ~ column.type ~ ' in the model') -%}
  {%- endfor -%}
  {%- if not facts -%}
    {{ return(data_names) }}
  {%- endif -%}
  {%- set facts = facts | join('; ') -%}
  {%- do log(target ~ ', on_schema_change ' ~ mode ~ ': ' ~ facts) -%}

  {%- if mode == 'fail' -%}
    {%- do exceptions.raise_compiler_error('the columns of ' ~ target ~ ' and of its model differ: ' ~ facts
      ~ '. Set on_schema_change to append_new_columns or sync_all_columns, alter the table, or run with --full-refresh') -%}
  {%- elif removed and mode != 'sync_all_columns' -%}
    {%- do exceptions.raise_compiler_error('columns of ' ~ target ~ ' are no longer fed by its model and would keep old values: '
      ~ (removed | join(', ')) ~ '. Set on_schema_change to sync_all_columns, which drops them, or select them again') -%}
  {%- elif added and mode == 'ignore' -%}
    {%- do exceptions.warn(model.name ~ ': columns of the model that its table lacks are left out (on_schema_change: ignore): '
      ~ (added | map(attribute='name') | join(', '))) -%}
  {%- endif -%}

  {%- set changes = [] -%}
  {%- if mode in ['append_new_columns', 'sync_all_columns'] -%}
    {%- for column in added -%}
      {%- do changes.append('add column ' ~ cdc_precedence.quoted(column.name) ~ ' ' ~ column.type
        ~ (' collate ' ~ column.collation if column.collation else '')) -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if mode == 'sync_all_columns' -%}
    {%- for name in removed -%}
      {%- do changes.append('drop column ' ~ cdc_precedence.quoted(name)) -%}
    {%- endfor -%}
    {%- for column in retyped -%}
      {%- if column.name in law -%}
        {%- do exceptions.raise_compiler_error('the key column ' ~ column.name ~ ' of ' ~ target ~ ' is ' ~ column.old
          ~ ' in the table and ' ~ column.type ~ ' in the model: a key is not altered. Cast it in the model, or drop the table') -%}
      {%- endif -%}
      {%- do changes.append('alter column ' ~ cdc_precedence.quoted(column.name) ~ ' type ' ~ column.type
        ~ ' using ' ~ cdc_precedence.quoted(column.name) ~ '::' ~ column.type) -%}
    {%- endfor -%}
  {%- endif -%}
  {%- if changes -%}
    {#- -- the model may read its own table, which then cannot be altered under the view -#}
    {%- call statement('cdc_alter') -%}
      drop view {{ events }};
      alter table {{ target }} {{ changes | join(', ') }}
    {%- endcall -%}
    {%- do cdc_precedence.create_events(target, sql) -%}
  {%- endif -%}
  {%- if mode == 'ignore' -%}
    {{ return(data_names | reject('in', added | map(attribute='name') | list) | list) }}
  {%- endif -%}
  {{ return(data_names) }}
{% endmacro %}
