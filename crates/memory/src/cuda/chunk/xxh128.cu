/* XXH3 of 128 bits (seed 0, default secret) of one chunk, by one block of 256 threads.
 *
 * Leaves out streams and seeds. NVRTC compiles this when the program runs; the mock of the tests compiles the same text
 * for the processor. Written after the specification of xxHash (doc/xxhash_spec.md, "XXH3").
 *
 * Eight accumulators are independent of each other, and what 1024 bytes (16 stripes) add to them
 * does not depend on their value. So all threads compute the sums of 32 such blocks at once, eight
 * threads a block, and only add-and-scramble runs in order, by eight threads. One accumulator a
 * thread without that would wait for memory at each stripe. The sums alternate between two buffers:
 * one barrier a round parts their writers from their readers.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef struct { u64 low, high; } u128;

#define DEVICE static __device__ __forceinline__

#define THREADS 256
/* Accumulators, stripes of them, and blocks between scrambles. */
#define LANES 8
#define STRIPE 64
#define BLOCK 1024
#define BLOCK_STRIPES (BLOCK / STRIPE)
/* Blocks whose sums are computed at once. */
#define ROUND (THREADS / LANES)

#define PRIME32_1 0x9E3779B1ULL
#define PRIME32_2 0x85EBCA77ULL
#define PRIME32_3 0xC2B2AE3DULL
#define PRIME64_1 0x9E3779B185EBCA87ULL
#define PRIME64_2 0xC2B2AE3D27D4EB4FULL
#define PRIME64_3 0x165667B19E3779F9ULL
#define PRIME64_4 0x85EBCA77C2B2AE63ULL
#define PRIME64_5 0x27D4EB2F165667C5ULL
#define PRIME_MX1 0x165667919E3779F9ULL
#define PRIME_MX2 0x9FB21C651E98DF25ULL

/* The default secret, as little-endian words, and eight bytes more to read past. */
__constant__ u64 SECRET[25] = {
    0xbe4ba423396cfeb8ULL, 0x1cad21f72c81017cULL, 0xdb979083e96dd4deULL, 0x1f67b3b7a4a44072ULL,
    0x78e5c0cc4ee679cbULL, 0x2172ffcc7dd05a82ULL, 0x8e2443f7744608b8ULL, 0x4c263a81e69035e0ULL,
    0xcb00c391bb52283cULL, 0xa32e531b8b65d088ULL, 0x4ef90da297486471ULL, 0xd8acdea946ef1938ULL,
    0x3f349ce33f76faa8ULL, 0x1d4f0bc7c7bbdcf9ULL, 0x3159b4cd4be0518aULL, 0x647378d9c97e9fc8ULL,
    0xc3ebd33483acc5eaULL, 0xeb6313faffa081c5ULL, 0x49daf0b751dd0d17ULL, 0x9e68d429265516d3ULL,
    0xfca1477d58be162bULL, 0xce31d07ad1b8f88fULL, 0x280416958f3acb45ULL, 0x7e404bbbcafbd7afULL,
    0,
};
__constant__ u64 INITIAL[LANES] = {
    PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1,
};

/* Eight bytes of the secret from any offset. */
DEVICE u64 key(u32 at) {
    u32 skip = (at & 7) * 8;
    u64 low = SECRET[at / 8];
    return skip ? low >> skip | SECRET[at / 8 + 1] << (64 - skip) : low;
}
DEVICE u32 read32(const u8 *at) {
    return (u32)at[0] | (u32)at[1] << 8 | (u32)at[2] << 16 | (u32)at[3] << 24;
}
/* A GPU loads words from multiples of their size only. */
DEVICE u64 read64(const u8 *at) {
    if (((u64)at & 7) == 0) return *(const u64 *)at;
    return read32(at) | (u64)read32(at + 4) << 32;
}
DEVICE u32 swap32(u32 word) {
    return word << 24 | (word << 8 & 0xff0000u) | (word >> 8 & 0xff00u) | word >> 24;
}
DEVICE u64 swap64(u64 word) {
    return (u64)swap32((u32)word) << 32 | swap32((u32)(word >> 32));
}
DEVICE u64 avalanche64(u64 hash) {
    hash = (hash ^ hash >> 33) * PRIME64_2;
    hash = (hash ^ hash >> 29) * PRIME64_3;
    return hash ^ hash >> 32;
}
DEVICE u64 avalanche(u64 hash) {
    hash = (hash ^ hash >> 37) * PRIME_MX1;
    return hash ^ hash >> 32;
}
DEVICE u128 multiply(u64 one, u64 other) {
    u128 product = { one * other, __umul64hi(one, other) };
    return product;
}
DEVICE u64 folded(u64 one, u64 other) {
    u128 product = multiply(one, other);
    return product.low ^ product.high;
}

/* One to three bytes. */
DEVICE u128 hash_to_3(const u8 *at, u32 length) {
    u32 low = (u32)at[0] << 16 | (u32)at[length >> 1] << 24 | at[length - 1] | length << 8;
    u32 swapped = swap32(low), high = swapped << 13 | swapped >> 19;
    u128 hash = { avalanche64(low ^ (u32)(key(0) ^ key(4))), avalanche64(high ^ (u32)(key(8) ^ key(12))) };
    return hash;
}
DEVICE u128 hash_to_8(const u8 *at, u32 length) {
    u64 input = read32(at) | (u64)read32(at + length - 4) << 32;
    u128 hash = multiply(input ^ key(16) ^ key(24), PRIME64_1 + ((u64)length << 2));
    hash.high += hash.low << 1;
    hash.low ^= hash.high >> 3;
    hash.low = (hash.low ^ hash.low >> 35) * PRIME_MX2;
    hash.low ^= hash.low >> 28;
    hash.high = avalanche(hash.high);
    return hash;
}
DEVICE u128 hash_to_16(const u8 *at, u32 length) {
    u64 low = read64(at), high = read64(at + length - 8);
    u128 middle = multiply(low ^ high ^ key(32) ^ key(40), PRIME64_1);
    middle.low += (u64)(length - 1) << 54;
    high ^= key(48) ^ key(56);
    middle.high += high + (high & 0xffffffffULL) * (PRIME32_2 - 1);
    middle.low ^= swap64(middle.high);
    u128 hash = multiply(middle.low, PRIME64_2);
    hash.high += middle.high * PRIME64_2;
    hash.low = avalanche(hash.low);
    hash.high = avalanche(hash.high);
    return hash;
}
DEVICE u64 mix16(const u8 *at, u32 secret) {
    return folded(read64(at) ^ key(secret), read64(at + 8) ^ key(secret + 8));
}
DEVICE u128 mix32(u128 sums, const u8 *one, const u8 *other, u32 secret) {
    sums.low = (sums.low + mix16(one, secret)) ^ (read64(other) + read64(other + 8));
    sums.high = (sums.high + mix16(other, secret + 16)) ^ (read64(one) + read64(one + 8));
    return sums;
}
/* 17 to 240 bytes. */
DEVICE u128 hash_to_240(const u8 *at, u32 length) {
    const u8 *end = at + length;
    u128 sums = { length * PRIME64_1, 0 };
    if (length <= 128) {
        if (length > 96) sums = mix32(sums, at + 48, end - 64, 96);
        if (length > 64) sums = mix32(sums, at + 32, end - 48, 64);
        if (length > 32) sums = mix32(sums, at + 16, end - 32, 32);
        sums = mix32(sums, at, end - 16, 0);
    } else {
        for (u32 next = 32; next <= length; next += 32) {
            /* From the fifth on the secret begins anew, at byte 3. */
            if (next == 160) {
                sums.low = avalanche(sums.low);
                sums.high = avalanche(sums.high);
            }
            u32 secret = next < 160 ? next - 32 : next - 160 + 3;
            sums = mix32(sums, at + next - 32, at + next - 16, secret);
        }
        if (length < 160) {
            sums.low = avalanche(sums.low);
            sums.high = avalanche(sums.high);
        }
        sums = mix32(sums, end - 16, end - 32, 103);
    }
    u64 high = sums.low * PRIME64_1 + sums.high * PRIME64_4 + length * PRIME64_2;
    u128 hash = { avalanche(sums.low + sums.high), 0 - avalanche(high) };
    return hash;
}
DEVICE u128 hash_short(const u8 *at, u32 length) {
    if (length > 16) return hash_to_240(at, length);
    if (length > 8) return hash_to_16(at, length);
    if (length > 3) return hash_to_8(at, length);
    if (length > 0) return hash_to_3(at, length);
    u128 hash = { avalanche64(key(64) ^ key(72)), avalanche64(key(80) ^ key(88)) };
    return hash;
}

/* What a stripe adds to an accumulator. */
DEVICE u64 stripe(const u8 *at, u32 lane, u64 secret) {
    u64 keyed = read64(at + lane * 8) ^ secret;
    return read64(at + (lane ^ 1) * 8) + (keyed & 0xffffffffULL) * (keyed >> 32);
}
DEVICE u64 sum_of(const u8 *at, u32 stripes, u32 lane, const u64 *secret) {
    u64 sum = 0;
    for (u32 index = 0; index < stripes; index++) sum += stripe(at + index * STRIPE, lane, secret[index + lane]);
    return sum;
}
DEVICE u64 merged(const u64 *lanes, u32 secret, u64 sum) {
    for (u32 pair = 0; pair < LANES; pair += 2)
        sum += folded(lanes[pair] ^ key(secret + pair * 8), lanes[pair + 1] ^ key(secret + pair * 8 + 8));
    return avalanche(sum);
}
/* The canonical form: the high half first, and the highest byte of each. */
DEVICE void put(u8 *digest, u128 hash) {
    for (u32 index = 0; index < 8; index++) {
        digest[index] = (u8)(hash.high >> (56 - index * 8));
        digest[index + 8] = (u8)(hash.low >> (56 - index * 8));
    }
}

extern "C" __global__ void xxh128(const unsigned char *chunk, unsigned long long bytes, unsigned long long offset, unsigned char *digest) {
    __shared__ u64 secret[24], lanes[LANES], sums[2][THREADS];
    u32 thread = threadIdx.x, lane = thread % LANES, buffer = 0;
    if (bytes <= 240) {
        if (thread == 0) put(digest, hash_short(chunk, (u32)bytes));
        return;
    }
    if (thread < 24) secret[thread] = SECRET[thread];
    __syncthreads();
    u64 blocks = (bytes - 1) / BLOCK, accumulator = INITIAL[lane];
    for (u64 first = 0; first < blocks; first += ROUND, buffer ^= 1) {
        u64 block = first + thread / LANES;
        if (block < blocks) sums[buffer][thread] = sum_of(chunk + block * BLOCK, BLOCK_STRIPES, lane, secret);
        __syncthreads();
        if (thread < LANES) {
            u32 count = blocks - first < ROUND ? (u32)(blocks - first) : ROUND;
            for (u32 index = 0; index < count; index++) {
                accumulator += sums[buffer][index * LANES + lane];
                accumulator = (accumulator ^ accumulator >> 47 ^ secret[16 + lane]) * PRIME32_1;
            }
        }
    }
    if (thread < LANES) {
        u32 rest = (u32)((bytes - 1) % BLOCK) / STRIPE;
        accumulator += sum_of(chunk + blocks * BLOCK, rest, lane, secret);
        lanes[lane] = accumulator + stripe(chunk + bytes - STRIPE, lane, key(121 + lane * 8));
    }
    __syncthreads();
    if (thread == 0) {
        u128 hash = { merged(lanes, 11, bytes * PRIME64_1), merged(lanes, 117, ~(bytes * PRIME64_2)) };
        put(digest, hash);
    }
}
