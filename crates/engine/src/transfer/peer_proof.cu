/* Stores a pattern that each word's place gives into memory of another GPU. */
extern "C" __global__ void store(unsigned long long *to, unsigned long long words, unsigned long long seed) {
    unsigned long long stride = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; at < words; at += stride) {
        unsigned long long word = seed + (at + 1) * 0x9e3779b97f4a7c15ULL;
        word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
        word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
        to[at] = word ^ (word >> 31);
    }
}
