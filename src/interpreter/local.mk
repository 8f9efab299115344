# What runs cells inside a sandbox. Kernel scripts are carried inside the program.
noinst_LIBRARIES += src/libinterpreter.a
noinst_HEADERS += src/interpreter/bash.h src/interpreter/bash_shell.h src/interpreter/context.h src/interpreter/event.h src/interpreter/interpreter.h \
	src/interpreter/kernel.h \
	src/interpreter/kernel_place.h src/interpreter/kernel_process.h src/interpreter/kernelspec.h src/interpreter/language.h src/interpreter/span.h \
	src/interpreter/wire.h src/interpreter/zmtp.h
KERNEL_FILES = src/interpreter/kernels/python_kernel.py src/interpreter/kernels/hutch_extras.py src/interpreter/kernels/javascript.mjs
EXTRA_DIST += $(KERNEL_FILES)
src_libinterpreter_a_SOURCES = src/interpreter/bash.c src/interpreter/bash_shell.c src/interpreter/context.c src/interpreter/event.c \
	src/interpreter/execute.c src/interpreter/globals.c \
	src/interpreter/kernel.c src/interpreter/kernel_place.c src/interpreter/kernel_process.c src/interpreter/kernelspec.c src/interpreter/language.c \
	src/interpreter/routes.c src/interpreter/scripts.c \
	src/interpreter/span.c src/interpreter/wire.c src/interpreter/zmtp.c
src_libinterpreter_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) -DKERNELS_DIR='"$(abs_top_srcdir)/src/interpreter/kernels"'
INTERPRETER_LIBS = src/libinterpreter.a $(H1_LIBS)
src/interpreter/libinterpreter_a-scripts.$(OBJEXT): $(KERNEL_FILES)
