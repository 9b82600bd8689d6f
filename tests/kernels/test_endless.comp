/* Does not end within any deadline, whatever it is bound to: tests/exec/vk/endless_layer.c puts it in the place of
 * others. As long as it is since some drivers end loops after 65 535 turns in all. */
#version 460

layout(local_size_x = 1024) in;

shared uint zero;

#define TIMES_4(x) x x x x
#define TIMES_256(x) TIMES_4(TIMES_4(TIMES_4(TIMES_4(x))))

void main() {
    zero = 0;
    barrier();
    for (uint turn = 0; turn != 0xffffffffu; turn++) {
        TIMES_256(if (atomicAdd(zero, 0u) != 0) return;)
        turn &= 1023;
    }
}
