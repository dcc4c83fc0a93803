{{ config(cdc_full_refresh='swap') }}
{{ landed(table='landing.cut') }}
