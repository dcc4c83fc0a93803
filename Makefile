# cdc_precedence: build, install and test with PGXS.
# Variables that matter: PG_CONFIG (which server), PG_CFLAGS (more warnings,
# assertions: see README, "Develop"), REGRESS and ISOLATION (choose tests).

HERE        := $(dir $(firstword $(MAKEFILE_LIST)))
EXTENSION    = cdc_precedence
# The version stands in the control file alone.
EXTVERSION  := $(shell sed -n "s/^default_version *= *'\([^']*\)'.*/\1/p" $(HERE)$(EXTENSION).control)

MODULE_big   = $(EXTENSION)
OBJS         = src/cdc_module.o \
               src/cdc_position.o \
               src/cdc_type.o \
               src/cdc_source.o src/cdc_source_text.o src/cdc_source_json.o \
               src/cdc_aggregate.o \
               src/cdc_law.o \
               src/cdc_op.o \
               src/cdc_rule.o \
               src/cdc_target.o \
               src/cdc_poscol.o \
               src/cdc_ahead.o \
               src/cdc_scout.o \
               src/cdc_home.o \
               src/cdc_tombstone.o \
               src/cdc_expr.o \
               src/cdc_column.o \
               src/cdc_consume.o src/cdc_bookmark.o src/cdc_read_below.o \
               src/cdc_gap.o \
               src/cdc_read.o \
               src/cdc_chain.o \
               src/cdc_query.o \
               src/cdc_key.o \
               src/cdc_event.o \
               src/cdc_probe.o \
               src/cdc_bulk.o \
               src/cdc_peek.o \
               src/cdc_fold.o src/cdc_ordered.o \
               src/cdc_spill.o \
               src/cdc_image.o src/cdc_marks.o src/cdc_search.o \
               src/cdc_write.o \
               src/cdc_row.o \
               src/cdc_truncate.o \
               src/cdc_notice.o \
               src/cdc_report.o \
               src/cdc_sql.o src/cdc_fence.o \
               src/cdc_guard.o src/cdc_guarded.o src/cdc_exempt.o src/cdc_append.o \
               src/cdc_registry.o \
               src/cdc_apply.o \
               src/cdc_sieve.o src/cdc_snapshot.o \
               src/cdc_watch.o src/cdc_reason.o src/cdc_explain.o src/cdc_resurrected.o src/cdc_filtered.o src/cdc_check.o \
               src/cdc_attach.o \
               src/cdc_attach_ddl.o \
               src/cdc_attach_guard.o \
               src/cdc_attach_record.o src/cdc_apply_record.o \
               src/cdc_live_view.o \
               src/cdc_detach.o \
               src/cdc_event_view.o src/cdc_event_view_column.o \
               src/cdc_event_view_value.o src/cdc_event_view_read.o \
               src/cdc_event_view_schema.o src/cdc_event_view_source.o \
               src/cdc_decode.o src/cdc_decode_number.o src/cdc_decode_time.o \
               src/cdc_progress.o src/cdc_runs.o src/cdc_group.o src/cdc_all.o src/cdc_status.o \
               src/cdc_history.o src/cdc_history_record.o src/cdc_history_create.o src/cdc_history_open.o \
               src/cdc_history_read.o src/cdc_history_query.o src/cdc_history_sql.o src/cdc_history_write.o \
               src/cdc_follow.o

DATA         = $(patsubst $(HERE)%,%,$(wildcard $(HERE)sql/$(EXTENSION)--*--*.sql))
DATA_built   = sql/$(EXTENSION)--$(EXTVERSION).sql
PG_CPPFLAGS  = -I$(srcdir)/src -DCDC_PRECEDENCE_VERSION='"$(EXTVERSION)"'

REGRESS       := $(patsubst $(HERE)test/sql/%.sql,%,$(sort $(wildcard $(HERE)test/sql/*.sql)))
REGRESS_OPTS   = --inputdir=$(srcdir)/test --load-extension=$(EXTENSION)
ISOLATION     := $(patsubst $(HERE)test/specs/%.spec,%,$(sort $(wildcard $(HERE)test/specs/*.spec)))
ISOLATION_OPTS = --inputdir=$(srcdir)/test --outputdir=. --load-extension=$(EXTENSION)
ifdef VPATH
REGRESS_PREP   = link-expected
endif

PG_CONFIG   ?= pg_config
PGXS        := $(shell $(PG_CONFIG) --pgxs)
ifeq ($(PGXS),)
$(error pg_config was not found: install the server development package (Debian: postgresql-server-dev-15) or set PG_CONFIG)
endif
PGMAJOR     := $(shell $(PG_CONFIG) --version | sed 's/^[^0-9]*\([0-9]*\).*/\1/')
ifeq ($(shell test $(PGMAJOR) -lt 15 && echo old),old)
$(error cdc_precedence needs PostgreSQL 15 or later, $(PG_CONFIG) is of $(PGMAJOR))
endif
include $(PGXS)

$(OBJS) $(OBJS:.o=.bc): $(wildcard $(srcdir)/src/*.h) $(srcdir)/$(EXTENSION).control

# the parts of the script, in the order in which they are run
SQL_PARTS    = sql/$(EXTENSION).sql sql/cdc_source.sql sql/cdc_apply.sql sql/cdc_snapshot.sql sql/cdc_registry.sql sql/cdc_history.sql \
               sql/cdc_guard.sql sql/cdc_attach.sql \
               sql/cdc_event_view.sql sql/cdc_see.sql sql/cdc_operate.sql

$(DATA_built): $(SQL_PARTS) $(EXTENSION).control
	$(MKDIR_P) sql && cat $(filter %.sql,$^) > $@

$(OBJS) $(OBJS:.o=.bc): | objdir
objdir:
	@$(MKDIR_P) src
link-expected:
	ln -sfn $(abspath $(srcdir)/expected) expected
.PHONY: objdir link-expected

# A release archive for PGXN.  META.json is made, so that the version stands in
# one place.
META.json: $(HERE)META.json.in $(HERE)$(EXTENSION).control
	sed 's/@VERSION@/$(EXTVERSION)/' $< > $@

dist: META.json
	git archive --format=zip --prefix=$(EXTENSION)-$(EXTVERSION)/ --add-file=META.json \
		--output=$(EXTENSION)-$(EXTVERSION).zip HEAD
.PHONY: dist
