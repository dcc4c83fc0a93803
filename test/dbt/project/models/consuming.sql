{{ config(cdc_consume='delete', cdc_full_refresh='replay') }}
select op, id, name, amount, mood, {{ cdc_precedence.schema() }}.cdc_position(lsn, seq) as source_position
from landing.queue
