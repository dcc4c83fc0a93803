{{ config(indexes=[{'columns': ['customer_id']}], meta={'cdc_tombstones': 'row', 'cdc_guard': 'error'}) }}

select op, id, customer_id, total, cdc_position(commit_lsn, seq) as source_position
from {{ source('landing', 'orders') }}
{% if cdc_precedence.is_incremental() %}
where {{ cdc_precedence.unread('loaded_xid') }}
{% endif %}
