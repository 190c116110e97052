#pragma once

#include <complex>

// LAPACK's Fortran routines, as OpenBLAS exports them, by element type: Lapack<float>::potrf(...).
// Matrices are column-major.
namespace cleave::lapack {

using cfloat = std::complex<float>;
using cdouble = std::complex<double>;

template <typename T>
struct RealOf {
  using type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
  using type = T;
};
template <typename T>
using Real = typename RealOf<T>::type;

using In = const int*;
using Flag = const char*;

template <typename T>
using Potrf = void(Flag uplo, In n, T* a, In lda, int* info);
template <typename T>
using Getrf = void(In m, In n, T* a, In lda, int* pivots, int* info);
template <typename T>
using Geqrf = void(In m, In n, T* a, In lda, T* tau, T* work, In lwork, int* info);
template <typename T>
using Orgqr = void(In m, In n, In k, T* a, In lda, const T* tau, T* work, In lwork, int* info);
template <typename T>
using Ormqr = void(Flag side, Flag trans, In m, In n, In k, const T* a, In lda, const T* tau, T* c,
                   In ldc, T* work, In lwork, int* info);
template <typename T>
using Gehrd = void(In n, In low, In high, T* a, In lda, T* tau, T* work, In lwork, int* info);
template <typename T>
using Sytrd = void(Flag uplo, In n, T* a, In lda, Real<T>* d, Real<T>* e, T* tau, T* work, In lwork,
                   int* info);
template <typename T>
using Gtsv = void(In n, In nrhs, T* dl, T* d, T* du, T* b, In ldb, int* info);

// Real matrices and complex ones differ in these.
template <typename T>
using Gesdd = void(Flag job, In m, In n, T* a, In lda, T* s, T* u, In ldu, T* vt, In ldvt, T* work,
                   In lwork, int* iwork, int* info);
template <typename T>
using GesddComplex = void(Flag job, In m, In n, T* a, In lda, Real<T>* s, T* u, In ldu, T* vt,
                          In ldvt, T* work, In lwork, Real<T>* rwork, int* iwork, int* info);
template <typename T>
using Syevd = void(Flag job, Flag uplo, In n, T* a, In lda, T* w, T* work, In lwork, int* iwork,
                   In liwork, int* info);
template <typename T>
using Heevd = void(Flag job, Flag uplo, In n, T* a, In lda, Real<T>* w, T* work, In lwork,
                   Real<T>* rwork, In lrwork, int* iwork, In liwork, int* info);
template <typename T>
using Geev = void(Flag left, Flag right, In n, T* a, In lda, T* wr, T* wi, T* vl, In ldvl, T* vr,
                  In ldvr, T* work, In lwork, int* info);
template <typename T>
using GeevComplex = void(Flag left, Flag right, In n, T* a, In lda, T* w, T* vl, In ldvl, T* vr,
                         In ldvr, T* work, In lwork, Real<T>* rwork, int* info);
// `select` says which eigenvalues come first; null unless `sort` is 'S'.
template <typename T>
using Gees = void(Flag vectors, Flag sort, int (*select)(const T*, const T*), In n, T* a, In lda,
                  int* selected, T* wr, T* wi, T* vs, In ldvs, T* work, In lwork, int* bwork,
                  int* info);
template <typename T>
using GeesComplex = void(Flag vectors, Flag sort, int (*select)(const T*), In n, T* a, In lda,
                         int* selected, T* w, T* vs, In ldvs, T* work, In lwork, Real<T>* rwork,
                         int* bwork, int* info);
template <typename T>
using Geqp3 = void(In m, In n, T* a, In lda, int* jpvt, T* tau, T* work, In lwork, int* info);
template <typename T>
using Geqp3Complex = void(In m, In n, T* a, In lda, int* jpvt, T* tau, T* work, In lwork,
                          Real<T>* rwork, int* info);

extern "C" {
Potrf<float> spotrf_;
Potrf<double> dpotrf_;
Potrf<cfloat> cpotrf_;
Potrf<cdouble> zpotrf_;
Getrf<float> sgetrf_;
Getrf<double> dgetrf_;
Getrf<cfloat> cgetrf_;
Getrf<cdouble> zgetrf_;
Geqrf<float> sgeqrf_;
Geqrf<double> dgeqrf_;
Geqrf<cfloat> cgeqrf_;
Geqrf<cdouble> zgeqrf_;
Orgqr<float> sorgqr_;
Orgqr<double> dorgqr_;
Orgqr<cfloat> cungqr_;
Orgqr<cdouble> zungqr_;
Ormqr<float> sormqr_;
Ormqr<double> dormqr_;
Ormqr<cfloat> cunmqr_;
Ormqr<cdouble> zunmqr_;
Gehrd<float> sgehrd_;
Gehrd<double> dgehrd_;
Gehrd<cfloat> cgehrd_;
Gehrd<cdouble> zgehrd_;
Sytrd<float> ssytrd_;
Sytrd<double> dsytrd_;
Sytrd<cfloat> chetrd_;
Sytrd<cdouble> zhetrd_;
Gtsv<float> sgtsv_;
Gtsv<double> dgtsv_;
Gtsv<cfloat> cgtsv_;
Gtsv<cdouble> zgtsv_;
Gesdd<float> sgesdd_;
Gesdd<double> dgesdd_;
GesddComplex<cfloat> cgesdd_;
GesddComplex<cdouble> zgesdd_;
Syevd<float> ssyevd_;
Syevd<double> dsyevd_;
Heevd<cfloat> cheevd_;
Heevd<cdouble> zheevd_;
Geev<float> sgeev_;
Geev<double> dgeev_;
GeevComplex<cfloat> cgeev_;
GeevComplex<cdouble> zgeev_;
Gees<float> sgees_;
Gees<double> dgees_;
GeesComplex<cfloat> cgees_;
GeesComplex<cdouble> zgees_;
Geqp3<float> sgeqp3_;
Geqp3<double> dgeqp3_;
Geqp3Complex<cfloat> cgeqp3_;
Geqp3Complex<cdouble> zgeqp3_;
}

template <typename T>
struct Lapack;
template <>
struct Lapack<float> {
  static constexpr auto potrf = spotrf_;
  static constexpr auto getrf = sgetrf_;
  static constexpr auto geqrf = sgeqrf_;
  static constexpr auto orgqr = sorgqr_;
  static constexpr auto ormqr = sormqr_;
  static constexpr auto gehrd = sgehrd_;
  static constexpr auto sytrd = ssytrd_;
  static constexpr auto gtsv = sgtsv_;
  static constexpr auto gesdd = sgesdd_;
  static constexpr auto syevd = ssyevd_;
  static constexpr auto geev = sgeev_;
  static constexpr auto gees = sgees_;
  static constexpr auto geqp3 = sgeqp3_;
};
template <>
struct Lapack<double> {
  static constexpr auto potrf = dpotrf_;
  static constexpr auto getrf = dgetrf_;
  static constexpr auto geqrf = dgeqrf_;
  static constexpr auto orgqr = dorgqr_;
  static constexpr auto ormqr = dormqr_;
  static constexpr auto gehrd = dgehrd_;
  static constexpr auto sytrd = dsytrd_;
  static constexpr auto gtsv = dgtsv_;
  static constexpr auto gesdd = dgesdd_;
  static constexpr auto syevd = dsyevd_;
  static constexpr auto geev = dgeev_;
  static constexpr auto gees = dgees_;
  static constexpr auto geqp3 = dgeqp3_;
};
template <>
struct Lapack<cfloat> {
  static constexpr auto potrf = cpotrf_;
  static constexpr auto getrf = cgetrf_;
  static constexpr auto geqrf = cgeqrf_;
  static constexpr auto orgqr = cungqr_;
  static constexpr auto ormqr = cunmqr_;
  static constexpr auto gehrd = cgehrd_;
  static constexpr auto sytrd = chetrd_;
  static constexpr auto gtsv = cgtsv_;
  static constexpr auto gesdd = cgesdd_;
  static constexpr auto syevd = cheevd_;
  static constexpr auto geev = cgeev_;
  static constexpr auto gees = cgees_;
  static constexpr auto geqp3 = cgeqp3_;
};
template <>
struct Lapack<cdouble> {
  static constexpr auto potrf = zpotrf_;
  static constexpr auto getrf = zgetrf_;
  static constexpr auto geqrf = zgeqrf_;
  static constexpr auto orgqr = zungqr_;
  static constexpr auto ormqr = zunmqr_;
  static constexpr auto gehrd = zgehrd_;
  static constexpr auto sytrd = zhetrd_;
  static constexpr auto gtsv = zgtsv_;
  static constexpr auto gesdd = zgesdd_;
  static constexpr auto syevd = zheevd_;
  static constexpr auto geev = zgeev_;
  static constexpr auto gees = zgees_;
  static constexpr auto geqp3 = zgeqp3_;
};

}  // namespace cleave::lapack
