/* The CPU in the place of a TPU: a PJRT plug-in library that passes everything on to another one,
 * but for the options of a client. torch_tpu asks for those of a TPU, which no other library knows.
 *
 *     gcc -shared -fPIC -O2 -o cpu_shim.so cpu_shim.c
 *
 * PJRT_CPU_LIBRARY is the path of the library behind it.
 *
 * The structs are the beginnings of those in xla/pjrt/c/pjrt_c_api.h, major version 0 of the API,
 * whose fields never move. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  size_t struct_size;
  void *extension_start;
  const void *create_options;
  size_t num_options;
} Client_Create_Args;

typedef struct {
  size_t struct_size;
  void *extension_start;
  struct {
    size_t struct_size;
    void *extension_start;
    int major, minor;
  } version;
  void *functions_before[10]; /* PJRT_Error_Destroy to PJRT_Event_OnReady */
  void *(*PJRT_Client_Create)(Client_Create_Args *);
} Api;

static void *(*create)(Client_Create_Args *);

static void *create_without_options(Client_Create_Args *args) {
  args->create_options = NULL;
  args->num_options = 0;
  return create(args);
}

const Api *GetPjrtApi(void) {
  static Api *api;
  if (api) return api;
  const char *path = getenv("PJRT_CPU_LIBRARY");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  const Api *(*get)(void) = library ? (const Api *(*)(void))dlsym(library, "GetPjrtApi") : NULL;
  if (!get) {
    fprintf(stderr, "cpu_shim: PJRT_CPU_LIBRARY: %s\n", path ? dlerror() : "not set");
    return NULL;
  }
  const Api *theirs = get();
  api = malloc(theirs->struct_size);
  memcpy(api, theirs, theirs->struct_size);
  create = api->PJRT_Client_Create;
  api->PJRT_Client_Create = create_without_options;
  return api;
}
