#include "tests/fuzz/messages/message_mutator.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string_view>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace mooring::fuzz {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

class Silent final : public google::protobuf::io::ErrorCollector {
  void AddError(int /*line*/, int /*column*/, const std::string& /*text*/) override {}
};

// A field of a message in the tree.
struct Place {
  Message* message;
  const FieldDescriptor* field;
};

class Mutation {
 public:
  Mutation(unsigned seed, const std::vector<std::string>& words) : random_(seed), words_(words) {}

  void Change(Message& root) {
    for (std::size_t changes = 1 + Below(3); changes > 0; --changes) {
      const std::vector<Place> places = PlacesIn(root);
      const Place place = places[Below(places.size())];
      if (place.field->is_repeated()) {
        ChangeRepeated(place);
      } else {
        ChangeSingle(place);
      }
    }
  }

  // Copies a field of `from` over one of the same kind in `to`.
  void Cross(Message& from, Message& to) {
    const std::vector<Place> sources = PlacesIn(from), targets = PlacesIn(to);
    for (int attempt = 0; attempt < 20; ++attempt) {
      const Place target = targets[Below(targets.size())], source = sources[Below(sources.size())];
      if (source.field != target.field || !source.field->is_repeated()) continue;
      if (source.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      const Reflection& reading = *source.message->GetReflection();
      const int size = reading.FieldSize(*source.message, source.field);
      if (size == 0) continue;
      const Message& copied = reading.GetRepeatedMessage(*source.message, source.field, Index(size));
      target.message->GetReflection()->AddMessage(target.message, target.field)->CopyFrom(copied);
      return;
    }
  }

 private:
  std::size_t Below(std::size_t count) { return random_() % count; }
  int Index(int count) { return static_cast<int>(Below(static_cast<std::size_t>(count))); }

  static void Collect(Message& message, std::vector<Place>& places) {
    const Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor* field = message.GetDescriptor()->field(i);
      places.push_back({&message, field});
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (field->is_repeated()) {
        for (int at = 0; at < reflection.FieldSize(message, field); ++at) {
          Collect(*reflection.MutableRepeatedMessage(&message, field, at), places);
        }
      } else if (reflection.HasField(message, field)) {
        // An existing message is changed more often than it is replaced.
        places.pop_back();
        if (places.size() % 8 == 0) places.push_back({&message, field});
        Collect(*reflection.MutableMessage(&message, field), places);
      }
    }
  }
  static std::vector<Place> PlacesIn(Message& root) {
    std::vector<Place> places;
    Collect(root, places);
    return places;
  }

  void ChangeSingle(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    if (Below(8) == 0) {
      reflection.ClearField(place.message, place.field);
    } else if (place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Change(*reflection.MutableMessage(place.message, place.field), 2);
    } else {
      SetScalar(place);
    }
  }

  // Changes a new message a few times, so that it is not empty.
  void Change(Message& made, int times) {
    for (; times > 0; --times) {
      const std::vector<Place> places = PlacesIn(made);
      if (places.empty()) return;
      const Place place = places[Below(places.size())];
      if (place.field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        const Reflection& reflection = *place.message->GetReflection();
        Message& below = place.field->is_repeated() ? *reflection.AddMessage(place.message, place.field)
                                                    : *reflection.MutableMessage(place.message, place.field);
        Change(below, times);
      } else if (place.field->is_repeated()) {
        ChangeRepeated(place);
      } else {
        SetScalar(place);
      }
    }
  }

  void ChangeRepeated(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    const int size = reflection.FieldSize(*place.message, place.field);
    switch (size == 0 ? 0 : Below(5)) {
      case 1:
        reflection.RemoveLast(place.message, place.field);
        break;
      case 2:
        reflection.SwapElements(place.message, place.field, Index(size), Index(size));
        break;
      case 3:
        reflection.SwapElements(place.message, place.field, Index(size), size - 1);
        reflection.RemoveLast(place.message, place.field);
        break;
      case 4:
        Duplicate(place, size);
        break;
      default:
        Append(place);
    }
  }

  void Duplicate(const Place& place, int size) {
    if (place.field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return Append(place);
    const Reflection& reflection = *place.message->GetReflection();
    const int at = Index(size);
    Message* const added = reflection.AddMessage(place.message, place.field);
    added->CopyFrom(reflection.GetRepeatedMessage(*place.message, place.field, at));
  }

  void Append(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    Message& message = *place.message;
    switch (place.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        Change(*reflection.AddMessage(&message, place.field), 4);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.AddString(&message, place.field, NewText("", *place.field));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.AddEnumValue(&message, place.field, NewEnum(*place.field));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.AddInt32(&message, place.field, Number<std::int32_t>());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&message, place.field, Number<std::int64_t>());
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.AddUInt32(&message, place.field, Number<std::uint32_t>());
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&message, place.field, Number<std::uint64_t>());
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        break;  // no input has such lists
    }
  }

  void SetScalar(const Place& place) {
    const Reflection& reflection = *place.message->GetReflection();
    Message& message = *place.message;
    switch (place.field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_STRING:
        reflection.SetString(&message, place.field, NewText(reflection.GetString(message, place.field), *place.field));
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        reflection.SetEnumValue(&message, place.field, NewEnum(*place.field));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.SetBool(&message, place.field, !reflection.GetBool(message, place.field));
        break;
      case FieldDescriptor::CPPTYPE_INT32:
        reflection.SetInt32(&message, place.field, Number<std::int32_t>());
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.SetInt64(&message, place.field, Number<std::int64_t>());
        break;
      case FieldDescriptor::CPPTYPE_UINT32:
        reflection.SetUInt32(&message, place.field, Number<std::uint32_t>());
        break;
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.SetUInt64(&message, place.field, Number<std::uint64_t>());
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.SetDouble(&message, place.field, static_cast<double>(Number<std::int64_t>()));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.SetFloat(&message, place.field, static_cast<float>(Number<std::int32_t>()));
        break;
      case FieldDescriptor::CPPTYPE_MESSAGE:
        break;
    }
  }

  template <typename Type>
  Type Number() {
    switch (Below(6)) {
      case 0:
        return static_cast<Type>(random_());
      case 1:
        return std::numeric_limits<Type>::max();
      case 2:
        return std::numeric_limits<Type>::min();
      case 3:
        return static_cast<Type>(Below(4));
      case 4:
        return static_cast<Type>(Type{1} << Below(sizeof(Type) * 8 - 1));
      default:
        return static_cast<Type>((16 + Below(100)) << 20U);  // a size
    }
  }

  int NewEnum(const FieldDescriptor& field) {
    const google::protobuf::EnumDescriptor& type = *field.enum_type();
    return Below(16) == 0 ? Number<int>() : type.value(Index(type.value_count()))->number();
  }

  std::string NewText(std::string text, const FieldDescriptor& field) {
    if (!words_.empty() && Below(4) != 0) {
      const std::string& word = words_[Below(words_.size())];
      return Below(8) == 0 ? text + word : word;
    }
    const std::size_t size = std::min<std::size_t>(text.size(), 4000);
    text.resize(size + 64);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, text.size()));
    if (field.type() == FieldDescriptor::TYPE_STRING) {  // gRPC refuses messages whose text is no UTF-8
      for (char& byte : text) byte = static_cast<char>(byte & 0x7F);
    }
    return text;
  }

  std::mt19937 random_;
  const std::vector<std::string>& words_;
};

std::size_t Print(const Message& message, std::uint8_t* out, std::size_t most) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(message, &text);
  if (text.size() > most) return 0;
  std::memcpy(out, text.data(), text.size());
  return text.size();
}

}  // namespace

bool ParseInput(const std::uint8_t* data, std::size_t size, Message& message) {
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.SetRecursionLimit(32);
  return parser.ParseFromString(std::string(reinterpret_cast<const char*>(data), size), &message);
}

std::size_t MutateInput(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed, const Message& prototype,
                        const std::vector<std::string>& words) {
  const std::unique_ptr<Message> message(prototype.New());
  if (!ParseInput(data, size, *message)) message->Clear();
  Mutation(seed, words).Change(*message);
  return Print(*message, data, most);
}

std::size_t CrossInputs(const std::uint8_t* data1, std::size_t size1, const std::uint8_t* data2, std::size_t size2,
                        std::uint8_t* out, std::size_t most, unsigned seed, const Message& prototype) {
  const std::unique_ptr<Message> to(prototype.New()), from(prototype.New());
  if (!ParseInput(data1, size1, *to) || !ParseInput(data2, size2, *from)) return 0;
  Mutation(seed, {}).Cross(*from, *to);
  return Print(*to, out, most);
}

}  // namespace mooring::fuzz
