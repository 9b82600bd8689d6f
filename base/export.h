/* Symbol visibility and version. Everything not marked ROTA_API is hidden in the shared library. */
#ifndef ROTA_BASE_EXPORT_H
#define ROTA_BASE_EXPORT_H

#ifdef __cplusplus
#define ROTA_EXTERN_C extern "C"
#else
#define ROTA_EXTERN_C extern
#endif

#define ROTA_API ROTA_EXTERN_C __attribute__((visibility("default")))
#define ROTA_PRINTF(format_index, first_argument)                                                            \
    __attribute__((format(printf, format_index, first_argument)))

/* Of a call's declaration: compilers warn where it is called, and say what is called instead. */
#define ROTA_DEPRECATED(instead) __attribute__((deprecated("call " instead)))

#define ROTA_VERSION_MAJOR 0
#define ROTA_VERSION_MINOR 2
#define ROTA_VERSION_PATCH 0

/* "major.minor.patch" of the library that is linked, static storage. Semantic versioning. Wait-free. */
ROTA_API const char *rota_version(void);

#endif
