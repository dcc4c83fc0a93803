{#
  no_resurrected_rows: keys that are live although the log's last word is a
  delete; without a log, rows at or below their own tombstone.

  log: a relation of events (an archive of them is best), or SQL in parentheses,
  that has the key columns by name.  position and op_column are those of the log.  A row that has a newer position than the
  log's delete is no resurrection.
#}
{% test no_resurrected_rows(model, log=none, unique_key=none, position='source_position', op_column='op', deleted=none,
    position_column='source_position') %}
{%- if execute -%}
{%- set schema = cdc_precedence.schema() -%}
{%- set known = cdc_precedence.attached(model) -%}
{%- set names = cdc_precedence.columns_of(model) | map(attribute='name') | list -%}
{%- set key = cdc_precedence.key_for_test('no_resurrected_rows', model, known, unique_key) -%}
{%- if log -%}
  {%- do cdc_precedence.assert_log('no_resurrected_rows', model, log, key, position, none if deleted else op_column) -%}
{%- endif -%}
{%- set rows = cdc_precedence.live(model) if known else model -%}
{%- set newer = ('coalesce(t.' ~ cdc_precedence.quoted(position_column) ~ ' operator(' ~ schema ~ '.<) d.gone_at, true)')
  if position_column in names else 'true' -%}
{%- if log -%}
select {{ cdc_precedence.quoted_list(key, 't.') }}, d.gone_at
from {{ rows }} as t
join (
  select {{ cdc_precedence.quoted_list(key) }},
    {{ schema }}.latest_by_position({{ deleted or cdc_precedence.is_delete(cdc_precedence.quoted(op_column)) }},
      ({{ position }})::{{ schema }}.cdc_position) as gone,
    {{ schema }}.latest_by_position(({{ position }})::{{ schema }}.cdc_position,
      ({{ position }})::{{ schema }}.cdc_position) as gone_at
  from {{ log }} as e
  where not coalesce({{ cdc_precedence.is_retraction(cdc_precedence.quoted(op_column), deleted) }}, false)
  group by {{ cdc_precedence.quoted_list(key) }}
) as d on {{ cdc_precedence.same_key(key, 't', 'd') }}
where d.gone and {{ newer }}
{%- elif known and known.home == 'table' -%}
select {{ cdc_precedence.quoted_list(key, 't.') }}, d.source_position as gone_at
from {{ model }} as t
join {{ known.tombstones }} as d on {{ cdc_precedence.same_key(key, 't', 'd') }}
where not coalesce(t.{{ cdc_precedence.quoted(known.positions[0]) }} operator({{ schema }}.>) d.source_position, false)
{%- elif known -%}
select 1 as nothing where false
{%- else -%}
  {%- do exceptions.raise_compiler_error('no_resurrected_rows: ' ~ model ~ ' is not attached, so the test needs a log') -%}
{%- endif -%}
{%- endif -%}
{% endtest %}


{#
  positions_not_null: rows of a table that have no position; any event would
  replace them, unless a floor covers them.

  Snapshot rows of logs with LSNs are stored without one.  allow_snapshot_rows
  lets those pass of which the log says that they are: it has a snapshot row of
  the key, and nothing that came later.  log and op_column are as in
  no_resurrected_rows; snapshot takes another condition than the usual ops.
#}
{% test positions_not_null(model, position_column='source_position', allow_snapshot_rows=false, log=none, unique_key=none,
    op_column='op', snapshot=none) %}
{%- if execute -%}
{%- set known = cdc_precedence.attached(model) -%}
{%- set position = 't.' ~ cdc_precedence.quoted(position_column) -%}
select t.*
from {{ model }} as t
{%- if allow_snapshot_rows -%}
{%- if not log -%}
  {%- do exceptions.raise_compiler_error('positions_not_null: allow_snapshot_rows needs log, the events: a row without a position'
    ~ ' does not say by itself whether it comes from a snapshot') -%}
{%- endif -%}
{%- set key = cdc_precedence.key_for_test('positions_not_null', model, known, unique_key) -%}
{%- do cdc_precedence.assert_log('positions_not_null', model, log, key, none, none if snapshot else op_column) -%}
{%- set op = 'lower(trim(' ~ cdc_precedence.quoted(op_column) ~ '::text))' -%}
{%- set is_snapshot = snapshot or ('coalesce(' ~ op ~ " in ('r', 'read', 'snapshot'), true)") %}
left join (
  select {{ cdc_precedence.quoted_list(key) }}, bool_or({{ is_snapshot }}) as is_snapshot,
    bool_or(not ({{ is_snapshot }}) {%- if not snapshot %} and {{ op }} not in ('m', 'message', 'begin', 'commit') {%- endif %}) as is_streamed
  from {{ log }} as e
  group by {{ cdc_precedence.quoted_list(key) }}
) as d on {{ cdc_precedence.same_key(key, 't', 'd') }}
{%- endif %}
where ({{ position }} is null or {{ position }}::text in ('0/0', '0'))
{%- if known and known.floor %}
  and false
{%- endif %}
{%- if allow_snapshot_rows %}
  and not coalesce({{ position }} is null and d.is_snapshot and not coalesce(d.is_streamed, false), false)
{%- endif %}
{%- endif -%}
{% endtest %}


{#
  staging_carries_position: events without a position, other than snapshot rows
  and ops that are ignored.  A staging relation that has no such column fails
  with one row that says so.
#}
{% test staging_carries_position(model, position='source_position', op_column='op',
    without=['r', 'read', 'snapshot', 'm', 'message', 'begin', 'commit']) %}
{%- if execute -%}
{%- set schema = cdc_precedence.schema() -%}
{%- set names = cdc_precedence.columns_of(model) | map(attribute='name') | list -%}
{%- set plain = modules.re.match('^[A-Za-z_][A-Za-z0-9_$]*$', position) -%}
{%- if plain and position not in names -%}
select {{ cdc_precedence.literal('no column ' ~ position ~ ' in ' ~ model) }} as problem
{%- else -%}
select *
from {{ model }} as e
where (({{ cdc_precedence.quoted(position) if plain else position }})::{{ schema }}.cdc_position is null
    or not {{ schema }}.cdc_supersedes(({{ cdc_precedence.quoted(position) if plain else position }})::{{ schema }}.cdc_position, null))
{%- if op_column and op_column in names %}
  and lower(trim({{ cdc_precedence.quoted(op_column) }}::text)) not in (
    {%- for op in without %}{{ cdc_precedence.literal(op) }}{{ ', ' if not loop.last }}{% endfor -%} )
{%- endif %}
{%- endif -%}
{%- endif -%}
{% endtest %}


{#
  live_rows_equal: live rows that the source relation does not have, and rows of
  the source that are not live.  columns: all that both have, without those of
  the law.  Only meaningful while the pipeline stands still.
#}
{% test live_rows_equal(model, source_relation, columns=none) %}
{%- if execute -%}
{%- set known = cdc_precedence.attached(model) -%}
{%- set ours = cdc_precedence.columns_of(model) -%}
{%- set theirs = cdc_precedence.columns_of(source_relation) | map(attribute='name') | list -%}
{%- set law = (known.positions + [known.tombstone_column]) if known else [] -%}
{%- set picked = [] -%}
{%- for column in ours -%}
  {%- if (column.name in columns if columns else (column.name in theirs and column.name not in law)) -%}
    {#- -- types that have no equality are compared as text -#}
    {%- do picked.append(cdc_precedence.quoted(column.name)
      ~ ('::text as ' ~ cdc_precedence.quoted(column.name) if column.type in ['json', 'xml', 'point', 'polygon', 'line'] else '')) -%}
  {%- endif -%}
{%- endfor -%}
{%- set list = picked | join(', ') -%}
{%- set rows = cdc_precedence.live(model) if known else model -%}
select 'not in the source' as problem, a.* from (
  select {{ list }} from {{ rows }} as t except all select {{ list }} from {{ source_relation }} as s) as a
union all
select 'not live' as problem, b.* from (
  select {{ list }} from {{ source_relation }} as s except all select {{ list }} from {{ rows }} as t) as b
{%- endif -%}
{% endtest %}
