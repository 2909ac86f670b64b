// placeholder
#pragma once
namespace tagalong::kernels { struct Kernels; }
