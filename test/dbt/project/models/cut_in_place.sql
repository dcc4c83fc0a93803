{{ config(cdc_full_refresh='in_place') }}
{{ landed(table='landing.cut') }}
