#include "dpu.h"
