select id, name, amount, mood from {{ cdc_precedence.live(ref('in_row')) }} r
