-- every row is a change; which one wins is not this model's affair
select op, id, name, city, cdc_position(commit_lsn, seq) as source_position
from {{ source('landing', 'customers') }}
where {{ cdc_precedence.unread('loaded_xid') }}
