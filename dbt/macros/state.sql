{#
  What the package remembers of each model: which columns it has fed, and how far
  it has read.  One table in the models' schema, cdc_precedence_models, written in
  the run's own transaction.
#}

{% macro state_relation(relation) %}
  {{ return(api.Relation.create(schema=relation.schema, identifier='cdc_precedence_models')) }}
{% endmacro %}

{# -- none where nothing is known of the model #}
{% macro state(relation) %}
  {%- set table = cdc_precedence.state_relation(relation) -%}
  {%- if not cdc_precedence.json_of("select (to_regclass(" ~ cdc_precedence.literal(cdc_precedence.relation_name(table))
      ~ ") is not null)::text") -%}
    {{ return(none) }}
  {%- endif -%}
  {{ return(cdc_precedence.json_of("select (select json_build_object('fed', s.fed_columns, 'read_up_to',"
    ~ " case when s.cluster = c.system_identifier::text and s.read_up_to <= pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())"
    ~ " then s.read_up_to::text end, 'read_at', s.read_at)::text from " ~ cdc_precedence.relation_name(table) ~ " s, pg_catalog.pg_control_system() c"
    ~ " where s.model = " ~ cdc_precedence.literal(relation.identifier) ~ ")")) }}
{% endmacro %}

{#
  A table that is not attached has no fence and no deletes that are remembered,
  so attaching it as if it were new lets older events bring deleted rows back.
  Refused if it is not new: if this package has fed it (what it remembers is an
  ordinary table, which outlives the extension), or if the side table of an
  earlier attachment stands beside it.
#}
{% macro assert_nothing_forgotten(target, existing) %}
  {%- if cdc_precedence.attached(target) is not none -%}
    {{ return('') }}
  {%- endif -%}
  {%- set schema = cdc_precedence.schema() -%}
  {%- set side = cdc_precedence.quoted(target.schema) ~ '.' ~ cdc_precedence.quoted(target.identifier ~ '_tombstones') -%}
  {%- set left = cdc_precedence.json_of("select (select to_json(c.oid::regclass::text)::text from pg_catalog.pg_class c"
    ~ " where c.oid = to_regclass(" ~ cdc_precedence.literal(side) ~ ") and c.relkind in ('r', 'p')"
    ~ " and not " ~ schema ~ ".cdc_is_side_table(c.oid)"
    ~ " and exists (select from pg_catalog.pg_attribute a where a.attrelid = c.oid and a.attnum > 0"
    ~ "   and a.attname in ('source_position', 'deleted_at')))") -%}
  {%- set fed = existing is not none and existing.is_table and cdc_precedence.state(target) is not none -%}
  {%- if not fed and left is none -%}
    {{ return('') }}
  {%- endif -%}
  {%- set name = cdc_precedence.relation_name(target) -%}
  {%- set models = cdc_precedence.relation_name(cdc_precedence.state_relation(target)) -%}
  {%- do exceptions.raise_compiler_error(
    name ~ (" is not attached any more, although its model has fed it (" ~ models ~ ")" if fed else " is not attached")
    ~ (", and " ~ left ~ " beside it looks like its side table of an earlier attachment" if left else "")
    ~ ". Older events could bring deleted rows back: fence, floor and deletes of then may no longer be known."
    ~ " Attach it by hand: select " ~ schema ~ ".cdc_attach(" ~ cdc_precedence.regclass(target) ~ ", ..),"
    ~ " carry deletes, fence and floor over, then run again ('Leaving and coming back' in docs/dbt.md)."
    ~ " If nothing of it is to be kept:"
    ~ (" drop table " ~ left ~ ";" if left else "")
    ~ (" delete from " ~ models ~ " where model = " ~ cdc_precedence.literal(target.identifier) ~ ";" if fed else "")) -%}
{% endmacro %}

{#
  The transaction before which all have ended, asked before the events are read:
  what they wrote is read in this run.
#}
{% macro read_horizon() %}
  {{ return(cdc_precedence.json_of("select to_json(pg_catalog.pg_snapshot_xmin(pg_catalog.pg_current_snapshot())::text)::text")) }}
{% endmacro %}

{% macro remember(relation, fed, bookmark) %}
  {%- set table = cdc_precedence.state_relation(relation) -%}
  {%- set name = cdc_precedence.relation_name(table) -%}
  {%- call statement('cdc_state') -%}
    do $cdc$
    begin
      if to_regclass({{ cdc_precedence.literal(name) }}) is null then
        -- models of other threads make it too; the lock is held to the end of this transaction
        perform pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended({{ cdc_precedence.literal(name) }}, 0));
        create table if not exists {{ name }} (
          model text primary key, fed_columns name[] not null, read_up_to xid8, cluster text not null,
          read_at timestamptz not null);
        comment on table {{ name }} is 'what the dbt package cdc_precedence remembers of its models';
      end if;
    end $cdc$
  {%- endcall -%}
  {%- call statement('cdc_remember') -%}
    insert into {{ name }} as s (model, fed_columns, read_up_to, cluster, read_at)
    select {{ cdc_precedence.literal(relation.identifier) }}, {{ cdc_precedence.name_array(fed) }},
      {{ cdc_precedence.literal(none if flags.EMPTY else bookmark) }}::xid8, c.system_identifier, now()
    from pg_catalog.pg_control_system() c
    on conflict (model) do update set fed_columns = excluded.fed_columns, cluster = excluded.cluster, read_at = excluded.read_at,
      read_up_to = coalesce(excluded.read_up_to, s.read_up_to)
  {%- endcall -%}
{% endmacro %}

{#
  A condition for a model's WHERE: rows of transactions that had not ended when
  the model was last read.  The column is an xid8 with the default
  pg_current_xact_id(), so that no row of a loader that commits late is missed.
  A row may be read twice; that is what cdc_apply is for.
#}
{% macro unread(column='loaded_xid') %}
  {%- if not cdc_precedence.is_incremental() -%}
    {{ return('true') }}
  {%- endif -%}
  {%- set known = cdc_precedence.state(this) -%}
  {%- if known is none or known.read_up_to is none -%}
    {{ return('true') }}
  {%- endif -%}
  {{ return('(' ~ column ~ " >= '" ~ known.read_up_to ~ "'::xid8 or " ~ column ~ ' is null)') }}
{% endmacro %}

{#
  When the last run of the model that succeeded began, for a filter by the
  loader's clock; -infinity where everything is to be read.  Clocks say nothing
  of transactions that commit late: leave a margin wider than the longest.
#}
{% macro last_read() %}
  {%- set known = cdc_precedence.state(this) if cdc_precedence.is_incremental() else none -%}
  {{ return("'" ~ (known.read_at if known else '-infinity') ~ "'::timestamptz") }}
{% endmacro %}
