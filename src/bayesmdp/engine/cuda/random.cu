// Streams of random numbers and gamma variates, step by step those of
// `bayesmdp.posterior._random`, where the methods are explained. Draws differ from the
// CPU's by the rounding of exp, log and fused products alone.

struct Words { u64 a, b, c, d; };  // where a stream stands

struct Tables {
  const double *edge, *density;  // [257], of the normal density
  const double *sides, *height;  // [16 * 257, 2], [16 * 257], of x^m exp(-x)
};

#define TO_UNIT 2.220446049250313e-16  // 2^-52
#define EULER 2.718281828459045
#define TINY 0.1
#define FLOOR -700.0
#define FAINT 1e-250

DEVICE u64 high_product(u64 a, u64 b) {
#ifdef __CUDACC__
  return __umul64hi(a, b);
#else
  return (u64)(((unsigned __int128)a * b) >> 64);
#endif
}

DEVICE Words open_stream(u64 k0, u64 k1, i64 draw, i64 state, i64 action) {
  u64 c0 = (u64)draw, c1 = (u64)state, c2 = (u64)action, c3 = 0;
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int i = 0; i < 10; i++) {
    u64 high0 = high_product(0xD2E7470EE14C6C93ULL, c0), low0 = 0xD2E7470EE14C6C93ULL * c0;
    u64 high1 = high_product(0xCA5A826395121157ULL, c2), low1 = 0xCA5A826395121157ULL * c2;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9E3779B97F4A7C15ULL;
    k1 += 0xBB67AE8584CAA73BULL;
  }
  Words words = {c0 | 1, c1, c2, c3};
  return words;
}

DEVICE u64 advance(Words& w) {
  u64 mixed = w.a + w.d;
  u64 bits = ((mixed << 23) | (mixed >> 41)) + w.a;
  u64 s2 = w.c ^ w.a, s3 = w.d ^ w.b, s1 = w.b;
  w.b = s1 ^ s2;
  w.c = s2 ^ (s1 << 17);
  w.a = w.a ^ s3;
  w.d = (s3 << 45) | (s3 >> 19);
  return bits;
}

DEVICE double unit(u64 bits) { return ((double)(i64)(bits >> 12) + 0.5) * TO_UNIT; }

DEVICE double signed_point(const Tables& t, u64 bits, int layer) {
  return ((double)((i64)bits >> 11) + 0.5) * TO_UNIT * t.edge[layer];
}

DEVICE double short_normal(const Tables& t, u64 bits) {
  int layer = (int)(bits & 255);
  double x = signed_point(t, bits, layer);
  return fabs(x) < t.edge[layer + 1] ? x : infinity();
}

RARELY double normal(const Tables& t, Words& words) {
  for (;;) {
    u64 bits = advance(words);
    int layer = (int)(bits & 255);
    double x = signed_point(t, bits, layer);
    if (fabs(x) < t.edge[layer + 1]) return x;
    if (layer == 0) {
      for (;;) {
        double beyond = -log(unit(advance(words))) / t.edge[1];
        if (-2.0 * log(unit(advance(words))) > beyond * beyond)
          return copysign(t.edge[1] + beyond, x);
      }
    }
    bits = advance(words);
    double low = t.density[layer], high = t.density[layer + 1];
    if (low + unit(bits) * (high - low) < exp(-0.5 * x * x)) return x;
  }
}

DEVICE double short_whole(const Tables& t, int m, u64 bits) {
  const double* sides = t.sides + 2 * (m * 257 + (int)(bits & 255));
  double x = sides[0] + unit(bits) * (sides[1] - sides[0]);
  return sides[2] < x && x < sides[3] ? x : -1.0;
}

RARELY double gamma_whole(const Tables& t, int m, Words& words) {
  double edge = t.sides[2 * (m * 257 + 1) + 1];
  for (;;) {
    u64 bits = advance(words);
    int at = m * 257 + (int)(bits & 255);
    double left = t.sides[2 * at];
    double x = left + unit(bits) * (t.sides[2 * at + 1] - left);
    if (t.sides[2 * at + 2] < x && x < t.sides[2 * at + 3]) return x;
    if (x >= edge) {
      double slope = m / edge;
      for (;;) {
        double beyond = -log(unit(advance(words))) / (1.0 - slope);
        u64 more = advance(words);
        double gap = slope * beyond - m * log1p(beyond / edge);
        if (-log(unit(more)) >= gap) return edge + beyond;
      }
    }
    double density = exp(-x);
    for (int i = 0; i < m; i++) density *= x;
    bits = advance(words);
    double low = t.height[at], high = t.height[at + 1];
    if (low + unit(bits) * (high - low) < density) return x;
  }
}

RARELY double gamma_above_one(const Tables& t, double d, double c, Words& words) {
  for (;;) {
    double x = normal(t, words);
    u64 bits = advance(words);
    double v = 1.0 + c * x;
    if (v > 0.0) {
      v = v * v * v;
      double log_h = 0.5 * x * x + d * (1.0 - v + log(v));
      if (log(unit(bits)) < log_h) return v * d;
    }
  }
}

RARELY double log_gamma_tiny(const Tables& t, double shape, Words& words) {
  for (;;) {
    double exponential = gamma_whole(t, 0, words);
    double w = unit(advance(words)) * (EULER + shape);
    if (w < EULER) {
      double log_x = -exponential / shape;
      if (w <= EULER * exp(-exp(log_x))) return log_x;
    } else {
      double log_x = log(1.0 + exponential);
      if (log(unit(advance(words))) <= (shape - 1.0) * log_x) return log_x;
    }
  }
}

DEVICE double floored_exp(double log_x) {
  double root = exp(fmax(0.5 * log_x, 0.5 * FLOOR));
  return root * root;
}

DEVICE double gamma_variate(const Tables& t, double shape, Words& words) {
  i64 whole = (i64)shape;
  Words after = words;
  u64 bits = advance(after);
  double x;
  if (whole >= 1 && whole <= 16 && (double)whole == shape) {
    int m = (int)whole - 1;
    x = short_whole(t, m, bits);
    if (x < 0.0) {
      after = words;
      x = gamma_whole(t, m, after);
    }
  } else if (shape < TINY) {
    u64 more = advance(after);
    x = floored_exp(-short_whole(t, 0, bits) / shape);
    double w = unit(more) * (EULER + shape);
    if (w * (2.0 + x) > EULER * (2.0 - x)) {
      after = words;
      x = floored_exp(log_gamma_tiny(t, shape, after));
    }
  } else {
    double d = (shape > 1.0 ? shape : shape + 1.0) - 1.0 / 3.0;
    double c = 1.0 / sqrt(9.0 * d);
    double z = short_normal(t, bits);
    u64 more = advance(after);
    double v = 1.0 + c * z, q = c * z * z;
    x = v * v * v * d;
    double share = z < 0.0 ? 0.2 : 1.0 / 12.0;
    // infinite where the short form is undecided: not less than 1 either
    if (!(unit(more) < 1.0 - share * q * q)) {
      after = words;
      x = gamma_above_one(t, d, c, after);
    }
    if (shape < 1.0) {
      words = after;
      bits = advance(after);
      double exponential = short_whole(t, 0, bits);
      if (exponential < 0.0) {
        after = words;
        exponential = gamma_whole(t, 0, after);
      }
      x *= exp(-exponential / shape);
    }
  }
  words = after;
  return x;
}
