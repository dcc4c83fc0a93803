{{ config(alias="Order 'Items'", schema='Shop 2 %', unique_key=['Id', '"the Kind"'], cdc_full_refresh=env_var('TRIAL_REFRESH', 'in_place'),
    cdc_op_column='The Op', cdc_position_columns='At') }}
select op as "The Op", id as "Id", 'k%' as "the Kind", name as "Na""me", amount as "group", mood,
  {{ cdc_precedence.schema() }}.cdc_position(lsn, seq) as "At"
from landing.events
