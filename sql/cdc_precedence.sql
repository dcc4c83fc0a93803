/* cdc_precedence: the objects of the extension, in the order of their use. */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION cdc_precedence" to load this file. \quit

--------------------------------------------------------------------------
-- cdc_position: where the source's log put a change
--------------------------------------------------------------------------

--------------------------------------------------------------------------
-- latest_by_position: the value at the greatest position
--------------------------------------------------------------------------

--------------------------------------------------------------------------
-- cdc_apply: a staging table of events applied to a target
--------------------------------------------------------------------------
