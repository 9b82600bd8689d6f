/* The touch mode's kernel: statically reads its one storage buffer (and, in variant ROTA_TOUCH_WRITE, writes it), which is what
 * synchronization validation goes by. The push constant is 0, so nothing is touched in fact and data stay as they are. */
#version 460
layout(local_size_x = 1) in;
layout(push_constant) uniform push { uint enabled; } pc;
#ifdef ROTA_TOUCH_WRITE
layout(set = 0, binding = 0, std430) buffer range_ { uint v[]; } range;
void main() {
    if (pc.enabled != 0u) range.v[0] = pc.enabled;
}
#else
layout(set = 0, binding = 0, std430) readonly buffer range_ { uint v[]; } range;
shared uint sink;
void main() {
    if (pc.enabled != 0u) sink = range.v[0];
}
#endif
