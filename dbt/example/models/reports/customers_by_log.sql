-- the same customers, picked from the log by hand
select id, name, city
from {{ cdc_precedence.latest(source('landing', 'customers'), 'id', position='cdc_position(commit_lsn, seq)') }} newest
