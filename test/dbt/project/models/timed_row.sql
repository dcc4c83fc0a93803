{{ config(cdc_tombstone_column='gone', contract={'enforced': true}) }}
{{ landed() }}
