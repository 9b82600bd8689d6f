/* A form of adamw (train_params.h) of its own: with RATES, `factor` is [3] and has lr and step, as f32, after the
 * factor; the parameters' are not read. C and CUDA C++. Internal; not installed. */
#ifndef ROTA_UPDATE_PARAMS_H
#define ROTA_UPDATE_PARAMS_H

#define ROTA_UPDATE_RATES 32u

#endif
