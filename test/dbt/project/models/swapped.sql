{{ config(cdc_full_refresh='swap', cdc_lineage=env_var('TRIAL_LINEAGE', '') or none, cdc_guard='skip', cdc_swap_cascade=(env_var('TRIAL_CASCADE', 'no') == 'yes'), indexes=[{'columns': ['name']}]) }}
{{ landed() }}
