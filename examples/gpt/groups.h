/* A GPT of whose parameters each rank has a part alone (ZeRO): groups, which are gathered for the ops that read them.
 * */
#ifndef ROTA_EXAMPLES_GPT_GROUPS_H
#define ROTA_EXAMPLES_GPT_GROUPS_H

#include "examples/gpt/graph.h"

/* Group 0; layer l's is l + 1. */
#define GPT_GROUP_ENDS 0u
#define GPT_GROUP_NAME 48
/* Members of the largest group, a layer's. */
#define GPT_GROUP_MOST GPT_LAYER_PLACES
/* "weights of layer 3" */
void gpt_group_name(uint32_t group, char out[GPT_GROUP_NAME]);

/* Lays the model out by groups: its shards one after the other in each buffer. The model has its parameters, and its
 * communicator. */
rota_status gpt_groups_create(gpt_model *model);
void gpt_groups_free(gpt_model *model);
/* This rank's elements of a part of a parameter. Read, they are put between zeroes, which are there. */
rota_status gpt_groups_write(gpt_model *model, const gpt_parameter *p, int part, const float *values);
rota_status gpt_groups_read(const gpt_model *model, const gpt_parameter *p, int part, float *out_values);

/* A group's shard in a buffer laid out as the model's. */
rota_status gpt_group_tensor(const gpt_group *group, rota_buffer *buffer, rota_dtype dtype, rota_tensor *out);
/* Elements at the shard's beginning that decay: those of matrices. */
uint64_t gpt_group_decayed(const gpt_model *model, const gpt_group *group);

/* The ops recorded from here on find the group's weights gathered. Nothing where this rank has all of them, or has
 * gathered them once. */
rota_status gpt_groups_fetch(gpt_recording *r, uint32_t group);
/* Whether weights are gathered once (gpt_config.gathers_once) for several micro-batches, whose gradients are added up
 * whole before they are reduced. */
bool gpt_groups_add_whole(const gpt_recording *r);
/* Where that is so all are gathered now. */
rota_status gpt_groups_fetch_all(gpt_recording *r);

#endif
