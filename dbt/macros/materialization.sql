{#
  materialized: cdc.  The model's rows are change events; the table holds the
  newest version of each key, by the law of cdc_apply.

  One transaction from the pre-hooks to the commit, as in dbt's own
  materializations: after any error the table, its tombstones and the record of
  what was read are as before, and the next run simply does it again.

  The model's SQL is never copied: a temporary view of it is what cdc_apply
  reads, once, and what it consumes through.
#}
{% materialization cdc, adapter='postgres', supported_languages=['sql'] %}

  {%- set existing = load_cached_relation(this) -%}
  {%- set target = this.incorporate(type='table') -%}
  {%- set replaced = existing is not none and not existing.is_table -%}
  {%- set backup = make_backup_relation(target, existing.type if replaced else 'table') -%}
  {%- set grant_config = config.get('grants') -%}
  {%- set full_refresh = existing is not none and existing.is_table and should_full_refresh() -%}
  {%- set how = cdc_precedence.choice('full_refresh', ['in_place', 'swap', 'replay'], 'in_place') -%}

  {% if replaced %}
    {{ drop_relation_if_exists(load_cached_relation(backup)) }}
  {% endif %}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {# -- dbt ends its transaction for such hooks, and takes it for open afterwards #}
  {% if pre_hooks | selectattr('transaction', 'equalto', False) | list %}
    {% call statement('cdc_begin', auto_begin=False) %}
      begin
    {% endcall %}
  {% endif %}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% do cdc_precedence.assert_nothing_forgotten(target, existing) %}

  {# -- what the model's SQL gives, and what of it is data #}
  {% set events = cdc_precedence.create_events(target, sql) %}
  {% set shape = cdc_precedence.shape_of(events, target) %}
  {% do cdc_precedence.assert_contract(events, shape) %}
  {% set bookmark = cdc_precedence.read_horizon() %}

  {% if existing is none or replaced %}
    {% if replaced %}
      {% do adapter.rename_relation(existing, backup) %}
    {% endif %}
    {% do cdc_precedence.create_target(target, events, shape) %}
    {% do cdc_precedence.create_missing_indexes(target) %}
    {% do cdc_precedence.attach(target, shape) %}
    {% set fed = shape.data | map(attribute='name') | list %}
    {% set counts = cdc_precedence.apply(target, events, shape) %}
    {% set message = cdc_precedence.message(counts) %}
  {% else %}
    {% do cdc_precedence.attach(target, shape) %}
    {% set fed = cdc_precedence.change_schema(target, events, shape, sql, full_refresh, how) %}
    {% if not full_refresh %}
      {% set counts = cdc_precedence.apply(target, events, shape) %}
      {% set message = cdc_precedence.message(counts) %}
    {% elif how == 'replay' %}
      {% do cdc_precedence.create_missing_indexes(target) %}
      {% set counts = cdc_precedence.apply(target, events, shape, on_same_position='rewrite') %}
      {% set message = cdc_precedence.message(counts, 'replay') %}
    {% else %}
      {% set result = cdc_precedence.rebuild(target, events, shape, how) %}
      {% do cdc_precedence.create_missing_indexes(target) %}
      {% set counts = result.counts %}
      {% set message = cdc_precedence.message(counts, how, result) %}
    {% endif %}
    {# -- columns that attach() was not yet shown, in the live view too #}
    {% do cdc_precedence.attach(target, shape) %}
  {% endif %}

  {% do cdc_precedence.remember(target, fed, bookmark) %}
  {% call statement('cdc_drop_events') %}
    drop view {{ events }}
  {% endcall %}

  {% call noop_statement('main', message, 'CDC', counts.inserted + counts.updated + counts.deleted) %}
    {{ sql }}
  {% endcall %}

  {# -- the table stays, so grants that are no longer configured are taken back #}
  {% do apply_grants(target, grant_config, should_revoke=(existing is not none and not replaced)) %}
  {% do persist_docs(target, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}

  {% do adapter.commit() %}

  {% if replaced %}
    {% do adapter.drop_relation(backup) %}
  {% endif %}

  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target]}) }}

{% endmaterialization %}


{#
  Will this run read only what is new?  False on the first run, on a full
  refresh, and where the table is not attached yet.  (dbt's own is_incremental()
  is false in every custom materialization.)
#}
{% macro is_incremental() %}
  {% if not execute or model.config.materialized != 'cdc' or should_full_refresh() %}
    {{ return(false) }}
  {% endif %}
  {% set relation = adapter.get_relation(this.database, this.schema, this.identifier) %}
  {% if relation is none or not relation.is_table %}
    {{ return(false) }}
  {% endif %}
  {{ return(cdc_precedence.attached(relation) is not none) }}
{% endmacro %}
