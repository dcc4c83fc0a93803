/*
 * Helpers of the field case tests, in schema fc.
 *
 * A field case compares what it got with what the case says is right, inside
 * SQL: the output holds "ok | FC01 ..." or both values.  So accepting new
 * output can never make a wrong result right.
 */
SET client_min_messages = error;
DROP SCHEMA IF EXISTS fc CASCADE;
CREATE SCHEMA fc;
SET search_path = fc, public;

-- one line: ok, or what was got and what is right
CREATE FUNCTION fc.is(label text, got text, want text) RETURNS text
LANGUAGE sql AS $$
    SELECT CASE WHEN got IS NOT DISTINCT FROM want THEN 'ok | ' || label
                ELSE 'NOT OK | ' || label || ': got ' || coalesce(got, 'NULL') ||
                     ', right is ' || coalesce(want, 'NULL') END
$$;

-- cdc_apply's result as one sum: '3 = 1 inserted + 2 stale'
CREATE FUNCTION fc.apply(target regclass, staging regclass, options text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    r    record;
    sums text;
BEGIN
    EXECUTE format('SELECT * FROM cdc_apply(%L, %L%s)', target, staging, ', ' || options) INTO r;
    SELECT string_agg(n || ' ' || name, ' + ' ORDER BY ord) INTO sums
    FROM (VALUES (1, 'inserted', r.inserted), (2, 'updated', r.updated), (3, 'deleted', r.deleted),
                 (4, 'stale', r.stale), (5, 'duplicate', r.duplicate),
                 (6, 'superseded', r.superseded), (7, 'fenced', r.fenced),
                 (8, 'ignored', r.ignored), (9, 'truncated', r.truncated)) c (ord, name, n)
    WHERE n IS DISTINCT FROM 0;
    IF r.events IS DISTINCT FROM r.inserted + r.updated + r.deleted + r.stale + r.duplicate
                                 + r.superseded + r.fenced + r.ignored + r.truncated THEN
        sums := sums || ' (the sum is wrong)';
    END IF;
    RETURN r.events || coalesce(' = ' || sums, '') || CASE WHEN r.skipped THEN ' skipped' ELSE '' END;
END $$;

-- one value of a query, as it is after the calls to the left of this one
CREATE FUNCTION fc.value(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text; BEGIN EXECUTE query INTO r; RETURN r; END $$;

-- the SQLSTATE of a statement, or 'no error'
CREATE FUNCTION fc.sqlstate(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
    RETURN sqlstate;
END $$;

-- the SQLSTATE of an apply, or its result
CREATE FUNCTION fc.apply_error(target regclass, staging regclass, options text DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN fc.apply(target, staging, options);
EXCEPTION WHEN OTHERS THEN
    RETURN sqlstate;
END $$;

/*
 * The target as text, by key: 'value|value@position' for a live row and
 * 'tomb key@position' for a deleted one (its other values are not part of the
 * law).  For targets with a primary key and source_position; the deleted are
 * in the row (column deleted) or in <target>_tombstones.
 */
CREATE FUNCTION fc.state(target regclass) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    live   text;
    dead   text;
    res    text;
    in_row boolean := EXISTS (SELECT FROM pg_attribute WHERE attrelid = target AND attname = 'deleted' AND NOT attisdropped);
BEGIN
    SELECT string_agg(format('coalesce(t.%I::text, ''NULL'')', attname), ' || ''|'' || ' ORDER BY attnum),
           string_agg(format('t.%I::text', attname), ' || ''|'' || ' ORDER BY attnum)
               FILTER (WHERE attnum = ANY (i.indkey))
      INTO live, dead
      FROM pg_attribute a JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary
     WHERE a.attrelid = target AND attnum > 0 AND NOT attisdropped
       AND attname NOT IN ('deleted', 'source_position');
    EXECUTE format($q$
        SELECT coalesce(string_agg(v || '@' || coalesce(p::text, 'none'), ' ' ORDER BY k COLLATE "C", v COLLATE "C"), 'empty')
          FROM (SELECT CASE WHEN %1$s THEN 'tomb ' || %2$s ELSE %3$s END, %2$s, source_position FROM %4$s t$q$,
        CASE WHEN in_row THEN 'coalesce(t.deleted, false)' ELSE 'false' END, dead, live, target)
        || CASE WHEN in_row THEN '' ELSE format(' UNION ALL SELECT ''tomb '' || %1$s, %1$s, source_position FROM %2$s_tombstones t', dead, target) END
        || ') s (v, k, p)' INTO res;
    RETURN res;
END $$;

-- Back to what fc.deliveries kept: rows, tombstones and fence.  DELETE is
-- quicker than TRUNCATE on tables of a few rows.
CREATE FUNCTION fc.restore(target regclass, side regclass, fence cdc_position) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE concat_ws('; DELETE FROM ', format('DELETE FROM %s', target), side);
    EXECUTE format('INSERT INTO %s SELECT * FROM fc_target', target);
    IF side IS NOT NULL THEN
        EXECUTE format('INSERT INTO %s SELECT * FROM fc_side', side);
    END IF;
    IF EXISTS (SELECT FROM cdc_targets c WHERE c.target = restore.target) THEN
        PERFORM cdc_set_fence(target, fence);
    END IF;
END $$;

/*
 * Does every delivery of staging's events give the same target?  Each of 20
 * deliveries starts from the target as it is now, and hands over the events
 * in another order and:
 *   'any'    cut into batches at will, some events twice, at last all again;
 *   'log'    in the log's order, cut at will, at last all again;
 *   'batch'  in one batch.
 * The deliveries come from a hash, so they are the same in every run.  Target
 * and staging are as before at the end.  Needs staging.source_position for
 * 'log'.
 */
CREATE FUNCTION fc.deliveries(target regclass, staging regclass, how text, want text,
                              options text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    cols    text;
    pick    text;
    ord     text;
    got     text;
    bad     text;
    side    regclass := to_regclass(target || '_tombstones');
    at      cdc_position;
    n_batch int := CASE how WHEN 'batch' THEN 1 ELSE 3 END;
BEGIN
    SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) INTO cols
      FROM pg_attribute WHERE attrelid = staging AND attnum > 0 AND NOT attisdropped;
    EXECUTE format('CREATE TEMP TABLE fc_target AS TABLE %s', target);
    IF side IS NOT NULL THEN
        EXECUTE format('CREATE TEMP TABLE fc_side AS TABLE %s', side);
    END IF;
    SELECT fence INTO at FROM cdc_targets c WHERE c.target = deliveries.target;
    EXECUTE format('CREATE TEMP TABLE fc_events AS SELECT row_number() OVER () AS fc_n, * FROM %s', staging);
    IF how = 'log' THEN
        EXECUTE 'CREATE TEMP TABLE fc_rank AS SELECT fc_n, row_number() OVER (ORDER BY source_position, fc_n) AS r, '
                'count(*) OVER () AS n FROM fc_events';
    END IF;
    FOR deal IN 1 .. 20 LOOP
        PERFORM fc.restore(target, side, at);
        FOR batch IN 0 .. n_batch LOOP
            EXIT WHEN how = 'batch' AND batch = 1;
            ord := format('hashint8extended(fc_n, %s)', deal * 100 + batch);
            pick := CASE
                WHEN batch = n_batch OR how = 'batch' THEN 'true'
                WHEN how = 'log' THEN format(
                    '(SELECT CASE WHEN r <= 1 + (n * %s) / 20 THEN 0 WHEN r <= 2 + (n * %s) / 20 THEN 1 ELSE 2 END
                        FROM fc_rank WHERE fc_rank.fc_n = e.fc_n) = %s', deal % 7, deal, batch)
                ELSE format('(hashint8extended(fc_n, %s) & 1023) %% 3 = %s OR (hashint8extended(fc_n, %s) & 3) = 0',
                            deal, batch, deal * 100 + batch + 50) END;
            EXECUTE format('DELETE FROM %s', staging);
            EXECUTE format('INSERT INTO %s SELECT %s FROM fc_events e WHERE %s ORDER BY %s',
                           staging, cols, pick, ord);
            PERFORM fc.apply(target, staging, options);
        END LOOP;
        got := fc.state(target);
        IF got IS DISTINCT FROM want THEN
            bad := format('NOT OK | delivery %s (%s): got %s, right is %s', deal, how, got, want);
            EXIT;
        END IF;
    END LOOP;
    PERFORM fc.restore(target, side, at);
    EXECUTE format('DELETE FROM %s', staging);
    EXECUTE format('INSERT INTO %s SELECT %s FROM fc_events ORDER BY fc_n', staging, cols);
    DROP TABLE fc_target, fc_events;
    DROP TABLE IF EXISTS fc_rank, fc_side;
    RETURN coalesce(bad, 'ok | ... and so in every delivery (' || how || ')');
END $$;

-- the next batch: staging emptied and filled anew
CREATE PROCEDURE fc.stage(staging regclass, rows text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('TRUNCATE %s', staging);
    EXECUTE format('INSERT INTO %s VALUES %s', staging, rows);
END $$;
