-- a filter by the loader's clock, with a margin: what is read twice does no harm
select op, id, name, amount, mood, {{ cdc_precedence.schema() }}.cdc_position(lsn, seq) as source_position
from landing.events
where loaded_at > {{ cdc_precedence.last_read() }} - interval '1 second'
