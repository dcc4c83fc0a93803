{{ config(meta={'cdc_tombstones': 'row', 'cdc_guard': 'error', 'cdc_live_view': 'in_row_live'}) }}
{{ landed() }}
