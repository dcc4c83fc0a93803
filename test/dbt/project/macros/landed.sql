{# the events of landing.events, and what of them a run reads #}
{% macro landed(columns='id, name, amount, mood', table='landing.events') %}
select op, {{ columns }}, {{ cdc_precedence.schema() }}.cdc_position(lsn, seq) as source_position
from {{ table }}
where {{ cdc_precedence.unread() }}
{% endmacro %}
