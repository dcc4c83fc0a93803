select c.id, c.name, coalesce(sum(o.total), 0) as total
from {{ ref('customers') }} c
left join {{ cdc_precedence.live(ref('orders')) }} o on o.customer_id = c.id
group by c.id, c.name
