{{ config(on_schema_change=env_var('TRIAL_MODE', 'ignore')) }}
{{ landed(env_var('TRIAL_COLUMNS', 'id, name, amount')) }}
