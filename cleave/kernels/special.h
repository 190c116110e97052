#pragma once

namespace cleave {

// Special functions of doubles that the standard library lacks, right to about 1e-14 relative.
double digamma(double x);         // NaN at 0, -1, -2, ...
double zeta(double s, double q);  // Hurwitz: the sum of (k + q)^-s for k >= 0
double polygamma(double n,
                 double x);     // the n-th derivative of digamma; NaN unless n is 0, 1, 2, ...
double erf_inv(double x);       // NaN outside [-1, 1]
double bessel_i1e(double x);    // exp(-|x|) I1(x)
double lgamma_value(double x);  // log |gamma(x)|, without the global sign of std::lgamma

}  // namespace cleave
