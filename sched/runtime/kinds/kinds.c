/* The table of kinds. */
#include "sched/runtime/kinds/kinds.h"
#include "sched/runtime/kinds/migration.h"
#include "sched/runtime/kinds/plan.h"
#include "sched/runtime/kinds/plan_after.h"
#include "sched/runtime/kinds/plan_describe.h"
#include "sched/runtime/kinds/plan_touch.h"
#include "sched/runtime/kinds/read.h"
#include "sched/runtime/kinds/works.h"
#include "sched/runtime/kinds/write.h"

const rota_kind rota_kinds[] = {
    [ROTA_RECORD_PLAN] = {.noun = "plan",
                          .writes_host = true,
                          .name = rota_kind_plan_name,
                          .describe = rota_kind_plan_describe,
                          .sequence = rota_kind_plan_sequence,
                          .for_written = rota_kind_plan_for_written,
                          .note_end = rota_kind_plan_note_end,
                          .uncount = rota_kind_plan_uncount,
                          .end = rota_kind_plan_end,
                          .forget = rota_kind_plan_forget},
    [ROTA_RECORD_PLAN_AFTER] = {.noun = "plan",
                                .writes_host = true,
                                .name = rota_kind_plan_name,
                                .describe = rota_kind_after_describe,
                                .drop = rota_kind_after_drop,
                                .sequence = rota_kind_after_sequence,
                                .for_written = rota_kind_plan_for_written,
                                .note_end = rota_kind_plan_note_end,
                                .uncount = rota_kind_plan_uncount,
                                .end = rota_kind_plan_end,
                                .forget = rota_kind_after_forget},
    [ROTA_RECORD_WRITE] = {.noun = "write to buffer",
                           .name = rota_kind_host_name,
                           .drop = rota_kind_write_drop,
                           .sequence = rota_kind_write_sequence,
                           .give_back = rota_kind_write_give_back,
                           .for_written = rota_kind_write_for_written,
                           .uncount = rota_kind_host_uncount},
    [ROTA_RECORD_READ] = {.noun = "read of buffer",
                          .writes_host = true,
                          .name = rota_kind_host_name,
                          .drop = rota_kind_read_drop,
                          .sequence = rota_kind_read_sequence,
                          .uncount = rota_kind_host_uncount,
                          .end = rota_kind_read_end},
};

#define SEGMENT                                                                                              \
    {                                                                                                        \
        .prepare = rota_segment_prepare, .leave_out = rota_segment_leave_out,                                \
        .is_decided = rota_segment_is_decided, .touch = rota_segment_touch,                                  \
        .touch_node = rota_segment_touch_node, .carry = rota_segment_carry, .undone = rota_segment_undone    \
    }
const rota_work_row rota_work_rows[] = {
    [ROTA_WORK_SEGMENT] = SEGMENT,
    [ROTA_WORK_LOOPS] = SEGMENT,
    [ROTA_WORK_WRITE] = {.prepare = rota_write_prepare,
                         .touch = rota_write_touch,
                         .touch_node = rota_write_touch_node},
    [ROTA_WORK_READ] = {.prepare = rota_read_prepare,
                        .need = rota_read_need,
                        .touch = rota_read_touch,
                        .touch_node = rota_read_touch_node},
    [ROTA_WORK_MIGRATE_OUT] = {.prepare = rota_migration_out_prepare,
                               .need = rota_migration_out_need,
                               .give_back = rota_migration_out_give_back},
    [ROTA_WORK_MIGRATE_IN] = {.prepare = rota_migration_in_prepare,
                              .has_source = rota_migration_in_has_source,
                              .need = rota_migration_in_need,
                              .give_back = rota_migration_in_give_back,
                              .release = rota_migration_in_release,
                              .touch = rota_migration_in_touch,
                              .carry = rota_migration_in_carry,
                              .undone = rota_migration_in_undone},
    [ROTA_WORK_MIGRATE_OVER] = {.prepare = rota_migration_over_prepare,
                                .touch = rota_migration_in_touch,
                                .carry = rota_migration_in_carry,
                                .undone = rota_migration_in_undone},
};
