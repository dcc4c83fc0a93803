select id, name, amount, mood
from {{ cdc_precedence.latest('landing.events', 'id', position=cdc_precedence.schema() ~ '.cdc_position(lsn, seq)') }} l
