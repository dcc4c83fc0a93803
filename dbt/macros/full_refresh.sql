{#
  --full-refresh: the table as the model's rows alone make it, by the law, with
  what the table knows carried over: tombstones, fence, floor, epoch, lineage.

  The rows are built in a table of their own, which starts with the tombstones:

  - the floor is in force there, and keys that it has decided keep their row;
  - the fence is about dead keys. A key that is live today is not dead, so the
    fence is laid over the result, for the other keys.

  A live row is "not confirmed" if the model's rows neither lead to its version
  or a newer one nor delete it.  If these are more than max_delete_fraction of
  the live rows nothing is changed: a landing that keeps some weeks is not the
  whole history.

  Writers of the table wait from the beginning, readers do not.  In place, only
  rows that differ are written, through no other way than DELETE, UPDATE, INSERT
  on the same table.
#}

{# -- names and conditions that the statements share; t is the table, n the build #}
{% macro refresh_names(target, build, shape, how) %}
  {%- set known = cdc_precedence.attached(target) -%}
  {%- if known.positions | length != 1 -%}
    {%- do exceptions.raise_compiler_error("a full refresh (" ~ how ~ ") of " ~ target ~ " needs one position column, not "
      ~ (known.positions | join(', ')) ~ ": use cdc_full_refresh: replay") -%}
  {%- endif -%}
  {%- set schema = cdc_precedence.schema() -%}
  {%- set position = cdc_precedence.quoted(known.positions[0]) -%}
  {%- set tombstone = cdc_precedence.quoted(known.tombstone_column) if known.home == 'row' else none -%}
  {%- set dead = 'false' if tombstone is none
    else (tombstone ~ ' is true' if known.tombstone_type == 'boolean' else tombstone ~ ' is not null') -%}
  {%- set not_above = ' operator(' ~ schema ~ '.<=) ' -%}
  {%- set floor = cdc_precedence.literal(known.floor) ~ '::' ~ schema ~ '.cdc_position' -%}
  {%- set fence = cdc_precedence.literal(known.fence) ~ '::' ~ schema ~ '.cdc_position' -%}
  {%- set derived = [] -%}
  {%- set written = [] -%}
  {%- set fed = shape.data | map(attribute='name') | list -%}
  {%- for column in cdc_precedence.columns_of(target) if not column.generated -%}
    {%- if column.name in fed or column.name in known.positions or column.name == known.tombstone_column -%}
      {%- do written.append(column.name) -%}
    {%- else -%}
      {%- do derived.append(column.name) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return({'known': known, 'schema': schema, 'position': position, 'dead': dead, 'dead_t': dead | replace(tombstone, 't.' ~ tombstone) if tombstone else dead,
    'dead_n': dead | replace(tombstone, 'n.' ~ tombstone) if tombstone else dead,
    'decided': ('coalesce(t.' ~ position ~ not_above ~ floor ~ ', true)') if known.floor else 'false',
    'fenced': ('coalesce(n.' ~ position ~ not_above ~ fence ~ ', true)') if known.fence else 'false',
    'not_above': not_above,
    'same_key': cdc_precedence.same_key(known.key, 't', 'n'), 'same_key_d': cdc_precedence.same_key(known.key, 't', 'd'),
    'older': ' operator(' ~ schema ~ '.<) ', 'written': written, 'derived': derived,
    'key': cdc_precedence.quoted_list(known.key)}) }}
{% endmacro %}

{% macro rebuild(target, events, shape, how) %}
  {%- set build = make_intermediate_relation(target) if how == 'swap'
    else api.Relation.create(schema='pg_temp', identifier=target.identifier[:52] ~ '__cdc_build') -%}
  {%- set n = cdc_precedence.refresh_names(target, build, shape, how) -%}
  {%- set known = n.known -%}
  {%- if how == 'swap' -%}
    {%- do cdc_precedence.assert_swappable(target, known) -%}
  {%- endif -%}

  {%- call statement('cdc_lock') -%}
    lock table {{ target }} in share row exclusive mode
  {%- endcall -%}
  {%- call statement('cdc_build') -%}
    {% if how == 'swap' %}drop table if exists {{ build }};{% endif %}
    create {{ 'unlogged ' if how == 'swap' and config.get('unlogged', default=false) }}table {{ build }}
      (like {{ target }} including all);
    select {{ n.schema }}.cdc_attach({{ cdc_precedence.regclass(build) }},
      key_columns => {{ cdc_precedence.name_array(known.key) }},
      position_columns => {{ cdc_precedence.name_array(known.positions) }},
      tombstone_column => {{ cdc_precedence.literal(known.tombstone_column) }},
      tombstones => {{ cdc_precedence.literal(known.home) }},
      lineage => {{ cdc_precedence.literal(known.lineage) }},
      epoch => {{ cdc_precedence.literal(known.epoch) }})
    {%- if known.floor %};
    select {{ n.schema }}.cdc_set_floor({{ cdc_precedence.regclass(build) }}, {{ cdc_precedence.literal(known.floor) }})
    {%- endif %}
  {%- endcall -%}

  {#- -- deletes are remembered; in the side table home two tables hold them -#}
  {%- if known.home == 'table' -%}
    {%- do n.update({'tombs_t': known.tombstones, 'tombs_n': cdc_precedence.attached(build).tombstones}) -%}
    {%- call statement('cdc_tombstones') -%}
      insert into {{ n.tombs_n }} ({{ n.key }}, source_position, deleted_at)
      select {{ n.key }}, source_position, deleted_at from {{ n.tombs_t }}
    {%- endcall -%}
  {%- else -%}
    {%- call statement('cdc_tombstones') -%}
      insert into {{ build }} ({{ cdc_precedence.quoted_list(n.written + n.derived) }}) overriding system value
      select {{ cdc_precedence.quoted_list(n.written + n.derived) }} from {{ target }} where {{ n.dead }}
    {%- endcall -%}
  {%- endif -%}

  {%- set counts = cdc_precedence.apply(build, events, shape) -%}
  {%- call statement('cdc_analyze') -%}
    analyze {{ build }}
  {%- endcall -%}
  {#- -- a truncate among the events: it has killed the table's rows too, and its fence is the table's -#}
  {%- set cut = cdc_precedence.attached(build).fence -%}
  {%- set alive = ('not coalesce(t.' ~ n.position ~ n.not_above ~ cdc_precedence.literal(cut) ~ '::' ~ n.schema ~ '.cdc_position, true)')
    if cut else 'true' -%}
  {%- do n.update({'cut': cut}) -%}

  {%- if known.fence -%}
    {%- call statement('cdc_fence') -%}
      delete from {{ build }} n where not ({{ n.dead_n }}) and {{ n.fenced }}
        and not exists (select from {{ target }} t where not ({{ n.dead_t }}) and {{ n.same_key }})
    {%- endcall -%}
  {%- endif -%}

  {%- set no_tombstone = 'not exists (select from ' ~ n.tombs_n ~ ' d where ' ~ n.same_key_d ~ ')'
    if known.home == 'table' else 'true' -%}
  {%- set kept = '(' ~ n.decided ~ ' and ' ~ alive ~ ' and not exists (select from ' ~ build ~ ' n where ' ~ n.same_key ~ ') and ' ~ no_tombstone ~ ')' -%}
  {%- set found = cdc_precedence.json_of(
    "select json_build_object('live', count(*), 'lost', count(*) filter (where " ~ alive ~ " and not " ~ kept
    ~ " and not exists (select from " ~ build ~ " n where " ~ n.same_key
    ~ " and coalesce(not n." ~ n.position ~ n.older ~ "t." ~ n.position ~ ", t." ~ n.position ~ " is null))"
    ~ ((" and not exists (select from " ~ n.tombs_n ~ " d where " ~ n.same_key_d
        ~ " and coalesce(not d.source_position" ~ n.older ~ "t." ~ n.position ~ ", true))") if known.home == 'table' else "")
    ~ "))::text from " ~ target ~ " t where not (" ~ n.dead_t ~ ")") -%}
  {%- set fraction = cdc_precedence.option('max_delete_fraction', 0.1) | float -%}
  {%- if found.lost > fraction * found.live -%}
    {%- do exceptions.raise_compiler_error("full refresh of " ~ target ~ " refused: its rows do not confirm " ~ found.lost ~ " of "
      ~ found.live ~ " live rows, which would vanish or go back to an older version; more than cdc_max_delete_fraction ("
      ~ fraction ~ "). A landing that is emptied or keeps some time only is not the whole history: use cdc_full_refresh:"
      ~ " replay, or allow more if these rows are to go") -%}
  {%- endif -%}

  {%- if how == 'in_place' -%}
    {%- do cdc_precedence.merge_build(target, build, n, kept) -%}
  {%- else -%}
    {%- do cdc_precedence.swap_build(target, build, n, kept) -%}
  {%- endif -%}
  {{ return({'counts': counts, 'live': found.live, 'lost': found.lost}) }}
{% endmacro %}

{# -- the fence of a table whose own is "there" rises to another, and never falls #}
{% macro raise_fence(relation, n, fence, there) %}
  {%- if fence -%}
    select {{ n.schema }}.cdc_set_fence({{ cdc_precedence.regclass(relation) }}, {{ cdc_precedence.literal(fence) }})
    {%- if there %} where {{ cdc_precedence.literal(there) }}::{{ n.schema }}.cdc_position operator({{ n.schema }}.<)
      {{ cdc_precedence.literal(fence) }}::{{ n.schema }}.cdc_position {%- endif %};
  {%- endif -%}
{% endmacro %}

{# -- in place: what differs, into the table that stays #}
{% macro merge_build(target, build, n, kept) %}
  {%- set bypass = cdc_precedence.json_of("select to_json(coalesce(current_setting('cdc_precedence.bypass_guard', true), 'off'))::text") -%}
  {%- set sets = [] -%}
  {%- for name in n.written if name not in n.known.key -%}
    {%- do sets.append(cdc_precedence.quoted(name) ~ ' = n.' ~ cdc_precedence.quoted(name)) -%}
  {%- endfor -%}
  {%- call statement('cdc_merge') -%}
    set local cdc_precedence.bypass_guard = on;
    delete from {{ target }} t where not ({{ n.dead_t }}) and not {{ kept }}
      and not exists (select from {{ build }} n where {{ n.same_key }});
    {%- if sets %}
    update {{ target }} t set {{ sets | join(', ') }} from {{ build }} n
      where {{ n.same_key }}
        and row({{ cdc_precedence.quoted_list(n.written, 't.') }})::record *<> row({{ cdc_precedence.quoted_list(n.written, 'n.') }})::record;
    {%- endif %}
    insert into {{ target }} ({{ cdc_precedence.quoted_list(n.written) }}) overriding system value
      select {{ cdc_precedence.quoted_list(n.written, 'n.') }} from {{ build }} n
      where not exists (select from {{ target }} t where {{ n.same_key }});
    {%- if n.known.home == 'table' %}
    delete from {{ n.tombs_t }} d
      where exists (select from {{ build }} t where {{ n.same_key_d }})
        and not exists (select from {{ n.tombs_n }} t where {{ n.same_key_d }});
    insert into {{ n.tombs_t }} as t ({{ n.key }}, source_position, deleted_at)
      select {{ n.key }}, source_position, deleted_at from {{ n.tombs_n }}
      on conflict ({{ n.key }}) do update set source_position = excluded.source_position, deleted_at = excluded.deleted_at
      where t.source_position{{ n.older }}excluded.source_position;
    {%- endif %}
    set local cdc_precedence.bypass_guard = {{ bypass }}
  {%- endcall -%}
  {#- -- the table's greatest position is what it has applied: one event of the build there, a duplicate, says it -#}
  {%- set greatest = api.Relation.create(schema='pg_temp', identifier=target.identifier[:51] ~ '__cdc_greatest') -%}
  {%- set column = cdc_precedence.quoted(n.known.positions[0]) -%}
  {%- call statement('cdc_greatest') -%}
    create view {{ greatest }} as
    select * from (
      select case when {{ n.dead }} then 'd' else 'u' end as op, {{ n.key }}, {{ column }} from {{ build }}
      {%- if n.known.home == 'table' %}
      union all select 'd', {{ n.key }}, source_position from {{ n.tombs_n }}
      {%- endif %}) as e (op, {{ n.key }}, {{ column }})
    where {{ column }} operator({{ n.schema }}.=) (select high_position from {{ n.schema }}.cdc_targets
      where target = {{ cdc_precedence.regclass(build) }});
    select {{ n.schema }}.cdc_apply({{ cdc_precedence.regclass(target) }}, {{ cdc_precedence.regclass(greatest) }}, op_column => 'op',
      on_same_position => 'keep', on_schema_change => 'ignore', lineage => {{ cdc_precedence.literal(n.known.lineage) }});
    {{ cdc_precedence.raise_fence(target, n, n.cut, n.known.fence) }}
    drop view {{ greatest }};
    drop table {{ build }}
  {%- endcall -%}
{% endmacro %}

{# -- swap: the build becomes the table, with what in_place leaves where it is #}
{% macro swap_build(target, build, n, kept) %}
  {%- set every = cdc_precedence.quoted_list(n.written + n.derived) -%}
  {%- set grants = cdc_precedence.json_of(
    "select coalesce(json_agg(pg_catalog.format('grant %s on " ~ (build | string | replace("'", "''") | replace('%', '%%'))
    ~ " to %s%s', a.privilege_type, case a.grantee when 0 then 'public' else a.grantee::regrole::text end,"
    ~ " case when a.is_grantable then ' with grant option' else '' end)), '[]')::text"
    ~ " from pg_catalog.pg_class c cross join lateral pg_catalog.aclexplode(c.relacl) a"
    ~ " where c.oid = " ~ cdc_precedence.regclass(target) ~ " and a.grantee <> c.relowner") -%}
  {%- call statement('cdc_carry') -%}
    {%- if n.derived %}
    update {{ build }} n set
      {%- for name in n.derived %} {{ cdc_precedence.quoted(name) }} = t.{{ cdc_precedence.quoted(name) }}{{ ',' if not loop.last }}{% endfor %}
      from {{ target }} t where {{ n.same_key }};
    {%- endif %}
    insert into {{ build }} ({{ every }}) overriding system value
      select {{ cdc_precedence.quoted_list(n.written + n.derived, 't.') }} from {{ target }} t
      where ({{ n.dead_t }} or {{ kept }}) and not exists (select from {{ build }} n where {{ n.same_key }});
    {%- if n.known.home == 'table' %}
    insert into {{ n.tombs_n }} ({{ n.key }}, source_position, deleted_at)
      select {{ n.key }}, source_position, deleted_at from {{ n.tombs_t }} t
      where not exists (select from {{ n.tombs_n }} d where {{ n.same_key_d }})
        and not exists (select from {{ build }} n where {{ n.same_key }});
    {%- endif %}
    {{ cdc_precedence.raise_fence(build, n, n.known.fence, n.cut) }}
    drop table {{ target }} {{ 'cascade' if cdc_precedence.option('swap_cascade') }};
    alter table {{ build }} rename to {{ cdc_precedence.quoted(target.identifier) }}
  {%- endcall -%}
  {%- for grant in grants -%}
    {%- call statement('cdc_grant') -%}
      {{ grant | replace(build | string, target | string) }}
    {%- endcall -%}
  {%- endfor -%}
  {#- -- the names that came from the build's; one that is taken stays -#}
  {%- set renames = cdc_precedence.json_of(
    "select coalesce(json_agg(pg_catalog.format('alter %s %s rename to %I', kind, c.oid::regclass, new)), '[]')::text"
    ~ " from (select oid, relname, relnamespace, 'table' as kind from pg_catalog.pg_class where oid = "
    ~ (cdc_precedence.literal(n.tombs_n) ~ "::regclass" if n.tombs_n else "0")
    ~ "   union all select x.oid, x.relname, x.relnamespace, 'index' from pg_catalog.pg_index i"
    ~ "   join pg_catalog.pg_class x on x.oid = i.indexrelid where i.indrelid in (" ~ cdc_precedence.regclass(target)
    ~ (", " ~ cdc_precedence.literal(n.tombs_n) ~ "::regclass" if n.tombs_n else "") ~ ")) c"
    ~ " cross join lateral (select " ~ cdc_precedence.literal(target.identifier) ~ " || pg_catalog.substr(c.relname, "
    ~ (build.identifier | length + 1) ~ ")) as r (new)"
    ~ " where pg_catalog.left(c.relname, " ~ (build.identifier | length) ~ ") = " ~ cdc_precedence.literal(build.identifier)
    ~ " and pg_catalog.octet_length(new) <= 63 and not exists (select from pg_catalog.pg_class o"
    ~ "   where o.relname = new and o.relnamespace = c.relnamespace)") -%}
  {%- for rename in renames -%}
    {%- call statement('cdc_rename') -%}
      {{ rename }}
    {%- endcall -%}
  {%- endfor -%}
  {%- if n.known.guard != 'off' -%}
    {%- call statement('cdc_guard') -%}
      select {{ n.schema }}.cdc_attach({{ cdc_precedence.regclass(target) }}, guard => {{ cdc_precedence.literal(n.known.guard) }})
    {%- endcall -%}
  {%- endif -%}
{% endmacro %}

{# -- a new table under the old name would lose these: refused, unless cdc_swap_cascade says that they may go #}
{% macro assert_swappable(target, known) %}
  {%- set oid = cdc_precedence.regclass(target) -%}
  {%- set losses = cdc_precedence.json_of(
    "select coalesce(json_agg(d order by d), '[]')::text from ("
    ~ "select distinct 'view ' || r.ev_class::regclass::text from pg_catalog.pg_depend p"
    ~ "   join pg_catalog.pg_rewrite r on r.oid = p.objid where p.classid = 'pg_rewrite'::regclass"
    ~ "   and p.refclassid = 'pg_class'::regclass and p.refobjid = " ~ oid ~ " and r.ev_class not in (" ~ oid ~ ","
    ~ "   coalesce(to_regclass('pg_temp.' || quote_ident(" ~ cdc_precedence.literal(target.identifier[:51] ~ '__cdc_events') ~ ")), 0))"
    ~ " union all select 'foreign key ' || conname || ' of ' || conrelid::regclass::text from pg_catalog.pg_constraint"
    ~ "   where contype = 'f' and (confrelid = " ~ oid ~ " or conrelid = " ~ oid ~ ")"
    ~ " union all select 'trigger ' || g.tgname from pg_catalog.pg_trigger g join pg_catalog.pg_proc f on f.oid = g.tgfoid"
    ~ "   where g.tgrelid = " ~ oid ~ " and not g.tgisinternal and f.proname <> 'cdc_guard'"
    ~ " union all select 'policy ' || polname from pg_catalog.pg_policy where polrelid = " ~ oid
    ~ " union all select 'partitions' from pg_catalog.pg_class where oid = " ~ oid ~ " and (relkind = 'p' or relispartition)"
    ~ ") as l (d)") -%}
  {%- if losses and not cdc_precedence.option('swap_cascade') -%}
    {%- do exceptions.raise_compiler_error("full refresh (swap) of " ~ target ~ " refused: a new table would lose " ~ (losses | join(', '))
      ~ ". Use cdc_full_refresh: in_place, or set cdc_swap_cascade: true to let them go") -%}
  {%- endif -%}
{% endmacro %}
