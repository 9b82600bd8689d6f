/* How many turns of commands that decide are recorded: see vk_turns.c. Internal to exec/vk. */
#ifndef ROTA_EXEC_VK_VK_TURNS_H
#define ROTA_EXEC_VK_VK_TURNS_H

#include <stdbool.h>

typedef struct rota_vk_program rota_vk_program;

/* Of all of them, in bodies, too; `few`: one of each, whatever that costs. O(commands). */
void rota_vk_turns_choose(rota_vk_program *program, bool few);

#endif
