{{ config(cdc_full_refresh='replay') }}
{{ landed() }}
