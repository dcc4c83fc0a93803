{{ config(indexes=[{'columns': ['name']}, {'columns': ['amount', 'id'], 'unique': true}], cdc_lineage=env_var('TRIAL_LINEAGE', '') or none, grants={'select': ['dbt_reader']},
    pre_hook=["insert into landing.hooks values ('pre', pg_current_xact_id())",
              before_begin("insert into landing.hooks values ('before begin', pg_current_xact_id())")],
    post_hook=["insert into landing.hooks values ('post', {{ 'pg_current_xact_id()' if env_var('TRIAL_FAIL', 'no') == 'no' else 'pg_current_xact_id()::text::int / 0' }})",
               after_commit("insert into landing.hooks values ('after commit', pg_current_xact_id())")]) }}
{{ landed() }}
