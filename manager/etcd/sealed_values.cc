#include "manager/etcd/sealed_values.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <array>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "base/file/whole_file.h"
#include "base/status.h"
#include "base/text/quote.h"

namespace mooring::manager {
namespace {

constexpr std::size_t kKeySize = 32;
constexpr int kNonceSize = 12;
constexpr int kTagSize = 16;
constexpr char kVersion = 1;  // the first byte; then nonce, text, tag

using Context = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

Context NewContext() { return {EVP_CIPHER_CTX_new(), &EVP_CIPHER_CTX_free}; }

const unsigned char* Bytes(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* Bytes(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }
int Size(std::string_view text) { return static_cast<int>(text.size()); }

bool Encrypt(std::string_view key, std::string_view nonce, std::string_view name, std::string_view value,
             std::string& text, std::string& tag) {
  const Context context = NewContext();
  int size = 0;
  return context && EVP_EncryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce)) == 1 &&
         EVP_EncryptUpdate(context.get(), nullptr, &size, Bytes(name), Size(name)) == 1 &&
         EVP_EncryptUpdate(context.get(), Bytes(text), &size, Bytes(value), Size(value)) == 1 &&
         EVP_EncryptFinal_ex(context.get(), Bytes(text) + size, &size) == 1 &&
         EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_GET_TAG, kTagSize, tag.data()) == 1;
}

bool Decrypt(std::string_view key, std::string_view nonce, std::string_view name, std::string_view text,
             std::string tag, std::string& value) {
  const Context context = NewContext();
  int size = 0;
  return context && EVP_DecryptInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, Bytes(key), Bytes(nonce)) == 1 &&
         EVP_DecryptUpdate(context.get(), nullptr, &size, Bytes(name), Size(name)) == 1 &&
         EVP_DecryptUpdate(context.get(), Bytes(value), &size, Bytes(text), Size(text)) == 1 &&
         EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_GCM_SET_TAG, kTagSize, tag.data()) == 1 &&
         EVP_DecryptFinal_ex(context.get(), Bytes(value) + size, &size) == 1;
}

}  // namespace

absl::StatusOr<SealedValues> SealedValues::Open(const std::string& key_file) {
  struct stat about = {};
  if (::stat(key_file.c_str(), &about) != 0) return ErrnoStatus(errno, "read the key of the secrets", key_file);
  if ((about.st_mode & 0077) != 0) {
    return FailedPrecondition("others can read the key of the secrets {}: run 'chmod 0600' on it", Quote(key_file));
  }
  MOORING_ASSIGN_OR_RETURN(std::string text, ReadWholeFile(key_file));
  absl::StripAsciiWhitespace(&text);
  std::string key(kKeySize, '\0');
  const bool is_hex = text.size() == 2 * kKeySize &&
                      OPENSSL_hexstr2buf_ex(Bytes(key), key.size(), nullptr, text.c_str(), /*separator=*/'\0') == 1;
  if (!is_hex && (!absl::Base64Unescape(text, &key) || key.size() != kKeySize)) {
    return FailedPrecondition(
        "the key of the secrets {} must have 32 bytes in base64 or hex: make one with "
        "'openssl rand -base64 32'",
        Quote(key_file));
  }
  return SealedValues(std::move(key), key_file);
}

absl::StatusOr<std::string> SealedValues::Seal(std::string_view name, std::string_view value) const {
  std::string nonce(kNonceSize, '\0');
  std::string text(value.size(), '\0');
  std::string tag(kTagSize, '\0');
  if (RAND_bytes(Bytes(nonce), kNonceSize) != 1 || !Encrypt(key_, nonce, name, value, text, tag)) {
    return Internal("cannot encrypt {}", Quote(name));
  }
  return kVersion + nonce + text + tag;
}

absl::StatusOr<std::string> SealedValues::Unseal(std::string_view name, std::string_view sealed) const {
  constexpr std::size_t kBefore = 1 + kNonceSize;
  if (sealed.size() >= kBefore + kTagSize && sealed[0] == kVersion) {
    const std::string_view text = sealed.substr(kBefore, sealed.size() - kBefore - kTagSize);
    std::string value(text.size(), '\0');
    const std::string tag(sealed.substr(sealed.size() - kTagSize));
    if (Decrypt(key_, sealed.substr(1, kNonceSize), name, text, tag, value)) return value;
  }
  return FailedPrecondition("cannot decrypt {} with the key in {}: all managers must have the key it was written with",
                            Quote(name), Quote(file_));
}

}  // namespace mooring::manager
