// Both files as one, for the simulator, which takes a single text of PTX.

#include "copy.cu"
#include "signal.cu"
