{{ config(cdc_tombstones='row') }}
{{ landed(table='landing.cut') }}
