select id, name, amount, mood from {{ cdc_precedence.live(ref('timed_row')) }} r
