{{ config(cdc_full_refresh='swap', cdc_guard='skip', indexes=[{'columns': ['name']}]) }}
{{ landed() }}
