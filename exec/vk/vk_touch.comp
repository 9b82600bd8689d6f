/* The touch mode's kernel: statically reads binding 0 and, in variant ROTA_TOUCH_WRITE, writes binding 1, which is what
 * synchronization validation goes by. The push constant is 0, so nothing is touched in fact and data stay as they
 * are. */
#version 460
layout(local_size_x = 1) in;
layout(push_constant) uniform push { uint enabled; } pc;
layout(set = 0, binding = 0, std430) readonly buffer read_ { uint v[]; } from;
shared uint sink;
#ifdef ROTA_TOUCH_WRITE
layout(set = 0, binding = 1, std430) buffer written_ { uint v[]; } to;
#endif
void main() {
    if (pc.enabled == 0u) return;
    sink = from.v[0];
#ifdef ROTA_TOUCH_WRITE
    to.v[0] = pc.enabled;
#endif
}
