{{ config(on_schema_change=var('mode', 'ignore')) }}
{{ landed(var('columns', 'id, name, amount')) }}
